package splice

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

var sizes = []struct {
	name  string
	tools int
}{{"40KB", 50}, {"400KB", 500}}

// BenchmarkEncode is the work done once for each body.
func BenchmarkEncode(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			body := listBody(size.tools)
			c := new(Codec)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				e, err := c.Encode(context.Background(), body)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(e.Size()), "bytes-kept")
			}
		})
	}
}

// BenchmarkSplice is the work done for each answer.
func BenchmarkSplice(b *testing.B) {
	for _, size := range sizes {
		e := mustEncode(b, listBody(size.tools))
		for _, enc := range []Encoding{Gzip, Zstd} {
			// With room for the prefix alone, and for all of a small answer.
			for _, room := range []int{len(probe) + MaxOverhead, maxCopied} {
				b.Run(fmt.Sprintf("%s/%s/room=%d", size.name, enc, room), func(b *testing.B) {
					dst, prefix := make([]byte, 0, room), []byte(probe)
					b.ReportAllocs()
					for b.Loop() {
						if _, ok := e.Splice(dst, enc, prefix); !ok {
							b.Fatal("refused")
						}
					}
				})
			}
		}
	}
}

// BenchmarkWhole is what an answer costs when it is compressed each time, with
// kept encoders at the levels that are usual for that.
func BenchmarkWhole(b *testing.B) {
	for _, size := range sizes {
		message := append([]byte(probe), listBody(size.tools)...)
		b.Run(size.name+"/gzip", func(b *testing.B) {
			w, err := gzip.NewWriterLevel(nil, 5)
			if err != nil {
				b.Fatal(err)
			}
			var out bytes.Buffer
			b.ReportAllocs()
			for b.Loop() {
				out.Reset()
				w.Reset(&out)
				if _, err := w.Write(message); err != nil {
					b.Fatal(err)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(size.name+"/zstd", func(b *testing.B) {
			w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
			if err != nil {
				b.Fatal(err)
			}
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				out = w.EncodeAll(message, out[:0])
			}
		})
	}
}
