package splice

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// FuzzSplice splices any prefix to any body. The repeats make bodies of many
// blocks and prefixes of any length out of short inputs.
func FuzzSplice(f *testing.F) {
	f.Add([]byte(probe), uint16(0), listBody(3), uint16(0))
	f.Add([]byte("{"), uint16(maxPrefix-1), []byte("}"), uint16(1000))
	f.Add([]byte("{"), uint16(maxPrefix), []byte("abc"), uint16(100))
	f.Add([]byte{}, uint16(0), []byte{}, uint16(0))
	f.Add(randomBody(300), uint16(200), randomBody(1000), uint16(300))
	w := mustWorker(f)
	f.Fuzz(func(t *testing.T, prefix []byte, prefixRepeat uint16, body []byte, bodyRepeat uint16) {
		prefix, body = repeat(prefix, prefixRepeat), repeat(body, bodyRepeat)
		e := encodeAnyway(t, w, body)
		if len(prefix) <= maxPrefix {
			checkAnswers(t, e, prefix, body)
		} else if _, ok := e.Splice(nil, Zstd, prefix); ok {
			t.Fatalf("a prefix of %d bytes was taken", len(prefix))
		}
		if _, err := w.encode(t.Context(), body); err != nil {
			t.Fatal(err)
		}
	})
}

// repeat returns b, and n times b again as long as that is below 1 MiB.
func repeat(b []byte, n uint16) []byte {
	if len(b) == 0 {
		return b
	}
	return bytes.Repeat(b, min(1+int(n), max(1, 1<<20/len(b))))
}

// FuzzFrame takes the blocks out of anything. If it is a frame, its blocks
// must mean the same with a prefix before them.
func FuzzFrame(f *testing.F) {
	f.Add([]byte(probe), frame(f, listBody(3)))
	f.Add([]byte(probe), frame(f, listBody(3), zstd.WithSingleSegment(true)))
	f.Add([]byte("{"), frame(f, listBody(300), zstd.WithWindowSize(1<<12)))
	f.Add([]byte{}, frame(f, nil))
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(16<<20))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, prefix, b []byte) {
		encoded, err := newZstdBody(b)
		if err != nil || len(prefix) > maxPrefix {
			return
		}
		body, err := d.DecodeAll(b, nil)
		if err != nil {
			return
		}
		checkAnswers(t, &Encoded{zstd: encoded}, prefix, body)
	})
}
