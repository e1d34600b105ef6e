package splice

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// gzipHeader is a member header without a name and a time (RFC 1952, 2.3).
	gzipHeader    = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	gzipHeaderLen = len(gzipHeader)
	// gzipTrailerLen is the length of CRC32 and ISIZE (RFC 1952, 2.3.1).
	gzipTrailerLen = 8
	// storedHeaderLen is the length of what comes before the bytes of a
	// stored block that starts at a byte boundary (RFC 1951, 3.2.4).
	storedHeaderLen = 5
	// maxCopied is the longest deflate stream, in bytes, that is copied in
	// order to save a write. Through net/http on loopback, copying 14 or 30 KB
	// took 4 to 6 % less than writing the trailer by itself, copying 120 KB
	// 3 % more.
	maxCopied = 64 << 10
)

// gzipBody is a body as deflate blocks, and what the trailer needs of it.
type gzipBody struct {
	// deflate is a complete deflate stream. Nil: the body is not there in gzip.
	deflate []byte
	size    uint32 // length of the body, modulo 2^32
	sum     uint32 // CRC-32 of the body
	shift   polynomial
}

// newGzipBody returns body in gzip; deflate is its deflate stream.
func newGzipBody(deflate, body []byte) gzipBody {
	return gzipBody{
		deflate: deflate,
		size:    uint32(len(body)),
		sum:     crc32.ChecksumIEEE(body),
		shift:   shiftBy(len(body)),
	}
}

func (b *gzipBody) len(prefixLen int) int {
	n := gzipHeaderLen + len(b.deflate) + gzipTrailerLen
	if prefixLen > 0 {
		n += storedHeaderLen + prefixLen
	}
	return n
}

func (b *gzipBody) splice(dst, prefix []byte) Parts {
	whole := len(b.deflate) <= maxCopied && b.len(len(prefix)) <= cap(dst)-len(dst)
	dst = append(dst, gzipHeader...)
	if len(prefix) > 0 {
		dst = append(dst, 0) // not the last block, stored
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(prefix)))
		dst = binary.LittleEndian.AppendUint16(dst, ^uint16(len(prefix)))
		dst = append(dst, prefix...)
	}
	if whole {
		dst = append(dst, b.deflate...)
	}
	end := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, combine(crc32.ChecksumIEEE(prefix), b.sum, b.shift))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(prefix))+b.size)
	if whole {
		return Parts{Head: dst}
	}
	return Parts{Head: dst[:end], Tail: b.deflate, Foot: dst[end:]}
}
