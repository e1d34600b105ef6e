package splice

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// encodeAnyway returns body in both forms, even where they are no smaller.
func encodeAnyway(t testing.TB, w *worker, body []byte) *Encoded {
	t.Helper()
	e := new(Encoded)
	var err error
	if e.gzip, err = w.encodeGzip(body); err != nil {
		t.Fatal(err)
	}
	e.gzip.deflate = bytes.Clone(e.gzip.deflate)
	if e.zstd, err = w.encodeZstd(body); err != nil {
		t.Fatal(err)
	}
	e.zstd.blocks = bytes.Clone(e.zstd.blocks)
	return e
}

func mustWorker(t testing.TB) *worker {
	t.Helper()
	w, err := newWorker()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func mustEncode(t testing.TB, body []byte) *Encoded {
	t.Helper()
	e, err := new(Codec).Encode(context.Background(), body)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// answer returns the whole answer as a client receives it.
func answer(t testing.TB, e *Encoded, dst []byte, enc Encoding, prefix []byte) []byte {
	t.Helper()
	p, ok := e.Splice(dst, enc, prefix)
	if !ok {
		t.Fatalf("%s: refused a prefix of %d bytes", enc, len(prefix))
	}
	var b bytes.Buffer
	n, err := p.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("%s: WriteTo = %d, %v; wrote %d", enc, n, err, b.Len())
	}
	return b.Bytes()
}

// gunzip decodes exactly one member.
func gunzip(t testing.TB, b []byte) []byte {
	t.Helper()
	source := bytes.NewReader(b)
	r, err := gzip.NewReader(source)
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false)
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if source.Len() > 0 {
		t.Fatalf("%d bytes after the member", source.Len())
	}
	return out
}

// unzstd decodes exactly one frame, at once and as a stream.
func unzstd(t testing.TB, b []byte) []byte {
	t.Helper()
	var header zstd.Header
	blocks, err := header.DecodeAndStrip(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkBlocks(blocks); err != nil {
		t.Fatalf("not one frame: %v", err)
	}
	d, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	streamed, err := io.ReadAll(d)
	if err != nil {
		t.Fatalf("as a stream: %v", err)
	}
	whole, err := d.DecodeAll(b, nil)
	if err != nil {
		t.Fatalf("at once: %v", err)
	}
	if !bytes.Equal(streamed, whole) {
		t.Fatal("stream and whole differ")
	}
	return whole
}

// checkAnswers fails unless prefix+body comes out of both forms, wherever
// Splice puts the parts.
func checkAnswers(t testing.TB, e *Encoded, prefix, body []byte) {
	t.Helper()
	want := append(bytes.Clone(prefix), body...)
	for _, enc := range []Encoding{Gzip, Zstd} {
		if !e.Has(enc) {
			continue
		}
		got := answer(t, e, nil, enc, prefix)
		if n := e.answerLen(enc, len(prefix)); n != len(got) {
			t.Fatalf("%s: Len = %d, want %d", enc, n, len(got))
		}
		decode := gunzip
		if enc == Zstd {
			decode = unzstd
		}
		if !bytes.Equal(decode(t, got), want) {
			t.Fatalf("%s: decoded bytes differ (prefix %d, body %d)", enc, len(prefix), len(body))
		}
		for _, room := range []int{len(prefix) + MaxOverhead, len(prefix) + MaxOverhead + maxCopied} {
			if !bytes.Equal(answer(t, e, make([]byte, 0, room), enc, prefix), got) {
				t.Fatalf("%s: not the same with room for %d bytes", enc, room)
			}
		}
	}
}
