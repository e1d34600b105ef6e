package budget

// Buffer collects bytes that arrive in parts, and takes what it needs from a
// share before it does. If it knows how many come, it has room for just those;
// otherwise it grows by chunks, which are put together at the end. No buffer
// that doubles would do: for a moment it needs three times as much.
type Buffer struct {
	share *Share
	// whole is what has been put together, or all if the length is known.
	whole []byte
	// chunks hold what came after that; only the last one is not full.
	chunks []*chunk
	last   int // bytes of the last chunk
}

// NewBuffer returns a buffer for that many bytes, or for any number if length is
// negative. It reports false if the share has no room.
func NewBuffer(share *Share, length int64) (*Buffer, bool) {
	if length < 0 {
		length = firstSize
	}
	if !share.Grow(length) {
		return nil, false
	}
	return &Buffer{share: share, whole: make([]byte, 0, length)}, true
}

// Len returns how many bytes there are.
func (b *Buffer) Len() int {
	n := len(b.whole)
	if len(b.chunks) > 0 {
		n += (len(b.chunks)-1)*chunkSize + b.last
	}
	return n
}

// Beginning returns some bytes from the front, up to 4 KiB at least if there are so
// many. They are the buffer's.
func (b *Buffer) Beginning() []byte { return b.whole }

// Write adds bytes. It reports false if there is no room for them: the buffer is
// then of no more use.
func (b *Buffer) Write(p []byte) bool {
	if len(b.chunks) == 0 {
		n := min(len(p), cap(b.whole)-len(b.whole))
		b.whole, p = append(b.whole, p[:n]...), p[n:]
	}
	for len(p) > 0 {
		if len(b.chunks) == 0 || b.last == chunkSize {
			if !b.share.Grow(chunkSize) {
				return false
			}
			b.chunks, b.last = append(b.chunks, b.share.of.chunk()), 0
		}
		n := copy(b.chunks[len(b.chunks)-1][b.last:], p)
		b.last, p = b.last+n, p[n:]
	}
	return true
}

// Bytes returns all bytes in one piece, which stays the buffer's until Reset. It
// reports false if there is no room to put them together.
func (b *Buffer) Bytes() ([]byte, bool) {
	if len(b.chunks) == 0 {
		return b.whole, true
	}
	size, before := b.Len(), cap(b.whole)
	if !b.share.Grow(int64(size)) {
		return nil, false
	}
	whole := append(make([]byte, 0, size), b.whole...)
	for i, chunk := range b.chunks {
		if i == len(b.chunks)-1 {
			whole = append(whole, chunk[:b.last]...)
		} else {
			whole = append(whole, chunk[:]...)
		}
	}
	b.freeChunks()
	b.share.shrink(int64(before))
	b.whole = whole
	return whole, true
}

// Reset forgets the bytes, but not what has been taken for those in one piece.
func (b *Buffer) Reset() {
	b.freeChunks()
	b.whole = b.whole[:0]
}

func (b *Buffer) freeChunks() {
	b.share.of.keep(b.chunks)
	b.share.shrink(int64(len(b.chunks)) * chunkSize)
	b.chunks, b.last = nil, 0
}
