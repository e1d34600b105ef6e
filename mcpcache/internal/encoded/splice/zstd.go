package splice

import (
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdMagic starts every frame (RFC 8878, 3.1.1).
	zstdMagic = "\x28\xb5\x2f\xfd"
	// zstdHeaderLen is the length of our frame header: the magic number, a
	// descriptor that promises neither a content size nor a checksum nor a
	// dictionary, and the window (RFC 8878, 3.1.1.1).
	zstdHeaderLen = len(zstdMagic) + 2
	// blockHeaderLen is the length of a block header (RFC 8878, 3.1.1.2).
	blockHeaderLen = 3
	// maxBlock is the most that a block may decode to, if the window is at
	// least as large (RFC 8878, 3.1.1.2.4).
	maxBlock = 128 << 10
	// maxWindow is the largest window that every HTTP client has to support
	// (RFC 9659, 3).
	maxWindow = 8 << 20
)

var (
	errNotPlain  = errors.New("frame with a checksum, with a dictionary, or to be skipped")
	errTrailing  = errors.New("bytes after the last block")
	errBlockType = errors.New("reserved block type")
	errBlockSize = errors.New("block larger than 128 KiB")
	errWindow    = errors.New("window larger than 8 MiB")
)

// zstdBody is a body as the blocks of a frame.
type zstdBody struct {
	// blocks ends with the last block of the frame. Nil: the body is not there in
	// zstd.
	blocks []byte
	// window is the Window_Descriptor of the frame (RFC 8878, 3.1.1.1.2).
	window byte
}

// newZstdBody takes the blocks out of a frame. The frame must be one without
// checksum and dictionary. The result refers to its bytes.
//
// Blocks refer backwards by distance, never to before the body. So what is in
// front of them does not matter, and the window that was enough stays enough.
// A frame of a single segment has its content as its window; its blocks may
// not be larger than that. Ours can be, and the prefix as well: therefore the
// window is never smaller than the largest block.
func newZstdBody(frame []byte) (zstdBody, error) {
	var header zstd.Header
	blocks, err := header.DecodeAndStrip(frame)
	if err != nil {
		return zstdBody{}, fmt.Errorf("parsing frame header: %w", err)
	}
	if header.Skippable || header.HasCheckSum || header.DictionaryID != 0 {
		return zstdBody{}, errNotPlain
	}
	if err := checkBlocks(blocks); err != nil {
		return zstdBody{}, fmt.Errorf("parsing blocks: %w", err)
	}
	window := header.WindowSize
	if header.SingleSegment {
		window = header.FrameContentSize
	}
	if window > maxWindow {
		return zstdBody{}, errWindow
	}
	return zstdBody{
		blocks: blocks,
		window: windowDescriptor(max(window, maxBlock)),
	}, nil
}

// checkBlocks fails unless b holds the blocks of one frame and nothing more.
func checkBlocks(b []byte) error {
	for last := false; !last; {
		if len(b) < blockHeaderLen {
			return io.ErrUnexpectedEOF
		}
		header := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		b = b[blockHeaderLen:]
		last = header&1 != 0
		size := int(header >> 3)
		if size > maxBlock {
			return errBlockSize
		}
		switch header >> 1 & 3 {
		case 1: // RLE: one byte, repeated
			size = 1
		case 3:
			return errBlockType
		}
		if len(b) < size {
			return io.ErrUnexpectedEOF
		}
		b = b[size:]
	}
	if len(b) > 0 {
		return errTrailing
	}
	return nil
}

// windowDescriptor returns the descriptor of the smallest window of at least
// size bytes, size being 1 KiB or more.
func windowDescriptor(size uint64) byte {
	exponent := bits.Len64(size) - 1
	// A window is a power of two and up to seven eighths of it.
	eighth := uint64(1) << exponent >> 3
	mantissa := (size - 8*eighth + eighth - 1) / eighth
	// A mantissa of eight carries into the exponent.
	return byte(uint64(exponent-10)<<3 + mantissa)
}

func (b *zstdBody) len(prefixLen int) int {
	n := zstdHeaderLen + len(b.blocks)
	if prefixLen > 0 {
		n += blockHeaderLen + prefixLen
	}
	return n
}

func (b *zstdBody) splice(dst, prefix []byte) Parts {
	dst = append(dst, zstdMagic...)
	dst = append(dst, 0, b.window)
	if n := len(prefix); n > 0 {
		header := n << 3 // not the last block, raw
		dst = append(dst, byte(header), byte(header>>8), byte(header>>16))
		dst = append(dst, prefix...)
	}
	return Parts{Head: dst, Tail: b.blocks}
}
