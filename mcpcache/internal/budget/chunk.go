package budget

import "sync"

// A buffer of unknown length begins with firstSize bytes and grows by chunks.
const (
	firstSize = 4 << 10
	chunkSize = 32 << 10
)

type chunk [chunkSize]byte

// keptShare is the part of a budget that chunks may take which nobody uses: as much
// as is left to small shares.
const keptShare = 4

// spare are chunks for the next buffers. A pool of the runtime would keep as
// many as there ever were, for a while.
type spare struct {
	mu     sync.Mutex
	chunks []*chunk
}

func (b *Budget) chunk() *chunk {
	b.spare.mu.Lock()
	defer b.spare.mu.Unlock()
	n := len(b.spare.chunks)
	if n == 0 {
		return new(chunk)
	}
	c := b.spare.chunks[n-1]
	b.spare.chunks[n-1], b.spare.chunks = nil, b.spare.chunks[:n-1]
	return c
}

// keep keeps as many of the chunks as it may.
func (b *Budget) keep(chunks []*chunk) {
	if len(chunks) == 0 {
		return
	}
	b.spare.mu.Lock()
	defer b.spare.mu.Unlock()
	room := int(min(b.limit.Load(), maxKept)/keptShare/chunkSize) - len(b.spare.chunks)
	b.spare.chunks = append(b.spare.chunks, chunks[:min(max(room, 0), len(chunks))]...)
}

// dropSpare forgets the chunks that nobody uses.
func (b *Budget) dropSpare() {
	b.spare.mu.Lock()
	defer b.spare.mu.Unlock()
	b.spare.chunks = nil
}

// maxKept bounds what is kept of a budget that has hardly a limit.
const maxKept = 64 << 20
