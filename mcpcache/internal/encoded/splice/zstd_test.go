package splice

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// frame compresses body with other options than ours.
func frame(t testing.TB, body []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, append([]zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(body, nil)
}

func TestWindowDescriptor(t *testing.T) {
	for _, test := range []struct {
		size, window uint64
	}{
		{1 << 10, 1 << 10},
		{1<<10 + 1, 1<<10 + 1<<7},
		{128 << 10, 128 << 10},
		{128<<10 + 1, 144 << 10},
		{240 << 10, 240 << 10},
		{240<<10 + 1, 256 << 10},
		{1 << 20, 1 << 20},
		{8<<20 - 1, 8 << 20},
		{8 << 20, 8 << 20},
	} {
		var header zstd.Header
		if err := header.Decode(append([]byte(zstdMagic), 0, windowDescriptor(test.size))); err != nil {
			t.Fatal(err)
		}
		if header.WindowSize != test.window {
			t.Errorf("%d: window %d, want %d", test.size, header.WindowSize, test.window)
		}
	}
}

// TestFrames takes the blocks out of frames with all kinds of headers.
func TestFrames(t *testing.T) {
	single, window := zstd.WithSingleSegment, zstd.WithWindowSize
	list := listBody(5000)
	for _, test := range []struct {
		name   string
		size   int
		opts   []zstd.EOption
		window uint64
	}{
		{"no window, size in one byte", 200, []zstd.EOption{single(true)}, maxBlock},
		{"no window, size in two bytes", 300, []zstd.EOption{single(true)}, maxBlock},
		{"no window, size in four bytes", 300_000, []zstd.EOption{single(true)}, 320 << 10},
		{"no window, block maximum", maxBlock, []zstd.EOption{single(true)}, maxBlock},
		{"no window, one byte more", maxBlock + 1, []zstd.EOption{single(true)}, 144 << 10},
		{"small window", 300_000, []zstd.EOption{single(false), window(1 << 12)}, maxBlock},
		{"window for the size", 300_000, []zstd.EOption{single(false)}, 512 << 10},
		{"window below the size", 4_000_000, []zstd.EOption{window(1 << 18)}, 1 << 18},
		{"largest window", 4_000_000, []zstd.EOption{single(true), window(8 << 20)}, 4 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := list[:test.size]
			f, err := newZstdBody(frame(t, body, test.opts...))
			if err != nil {
				t.Fatal(err)
			}
			e := &Encoded{zstd: f}
			for _, prefix := range [][]byte{nil, []byte(probe), randomBody(maxPrefix)} {
				checkAnswers(t, e, prefix, body)
			}
			var header zstd.Header
			if err := header.Decode(answer(t, e, nil, Zstd, nil)); err != nil {
				t.Fatal(err)
			}
			if header.WindowSize != test.window || header.SingleSegment || header.HasFCS || header.HasCheckSum {
				t.Errorf("header %+v, want window %d", header, test.window)
			}
		})
	}
}

func TestFramesRefused(t *testing.T) {
	plain := frame(t, listBody(200))
	var header zstd.Header
	if err := header.Decode(plain); err != nil {
		t.Fatal(err)
	}
	// withBlock returns a frame that has the block header alone changed.
	withBlock := func(b ...byte) []byte { return append(bytes.Clone(plain[:header.HeaderSize]), b...) }
	large := make([]byte, maxWindow+1)
	for _, test := range []struct {
		name  string
		frame []byte
		err   error
	}{
		{"checksum", frame(t, listBody(2), zstd.WithEncoderCRC(true)), errNotPlain},
		{"dictionary", frame(t, listBody(2), zstd.WithEncoderDictRaw(7, listBody(3))), errNotPlain},
		{"skippable", []byte("\x50\x2a\x4d\x18\x00\x00\x00\x00"), errNotPlain},
		{"empty", nil, io.ErrUnexpectedEOF},
		{"no frame", []byte("{\"tools\":[]}"), zstd.ErrMagicMismatch},
		{"two frames", append(bytes.Clone(plain), plain...), errTrailing},
		{"a byte more", append(bytes.Clone(plain), 0), errTrailing},
		{"a byte less", plain[:len(plain)-1], io.ErrUnexpectedEOF},
		{"no block", plain[:header.HeaderSize], io.ErrUnexpectedEOF},
		{"no last block", withBlock(0, 0, 0), io.ErrUnexpectedEOF},
		{"RLE without its byte", withBlock(1|1<<1|5<<3, 0, 0), io.ErrUnexpectedEOF},
		{"reserved block", withBlock(1|3<<1, 0, 0), errBlockType},
		{"block too large", append(withBlock(0x09, 0, 0x10), make([]byte, maxBlock+1)...), errBlockSize},
		{"window", frame(t, large, zstd.WithSingleSegment(true)), errWindow},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := newZstdBody(test.frame); !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
		})
	}
	t.Run("largest block", func(t *testing.T) {
		if _, err := newZstdBody(append(withBlock(0x01, 0, 0x10), make([]byte, maxBlock)...)); err != nil {
			t.Error(err)
		}
	})
	t.Run("largest window", func(t *testing.T) {
		if _, err := newZstdBody(frame(t, large[1:], zstd.WithSingleSegment(true))); err != nil {
			t.Error(err)
		}
	})
}
