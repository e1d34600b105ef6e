package splice

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// The levels are the highest that a refresh under load can afford. On the
// tools of a real server (43 and 137 KB) the ones above, gzip 9 and zstd
// "best", made 4 % fewer bytes in two to four times the time; "best" also
// needs tables of 34 MiB, eight times those of "better".
const (
	gzipLevel = 6
	zstdLevel = zstd.SpeedBetterCompression
)

// zstdWindow is how far back zstd looks, in bytes. It bounds the memory of
// the encoder and of every client. Lists repeat themselves at short distance:
// with 8 MiB, a list of 4 MB came out less than 1 % smaller.
const zstdWindow = 1 << 20

// maxScratch is the largest output buffer, in bytes, that an idle worker keeps.
const maxScratch = 1 << 20

// worker compresses one body at a time.
type worker struct {
	deflate *flate.Writer
	zstd    *zstd.Encoder
	check   *checker
	scratch sink
}

func newWorker() (*worker, error) {
	deflate, err := flate.NewWriter(io.Discard, gzipLevel)
	if err != nil {
		return nil, fmt.Errorf("making deflate encoder: %w", err)
	}
	// Concurrency 1 keeps the encoder from starting goroutines.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstdLevel), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(zstdWindow), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("making zstd encoder: %w", err)
	}
	check, err := newChecker()
	if err != nil {
		return nil, err
	}
	return &worker{deflate: deflate, zstd: encoder, check: check}, nil
}

// encode returns body in those encodings that are smaller than it.
func (w *worker) encode(ctx context.Context, body []byte) (*Encoded, error) {
	e := new(Encoded)
	gzip, err := w.encodeGzip(body)
	if err != nil {
		return nil, fmt.Errorf("encoding gzip: %w", err)
	}
	if gzip.len(0) < len(body) {
		gzip.deflate = bytes.Clone(gzip.deflate)
		e.gzip = gzip
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	zstd, err := w.encodeZstd(body)
	if err != nil {
		return nil, fmt.Errorf("encoding zstd: %w", err)
	}
	if zstd.len(0) < len(body) {
		zstd.blocks = bytes.Clone(zstd.blocks)
		e.zstd = zstd
	}
	if cap(w.scratch) > maxScratch {
		w.scratch = nil
	}
	if err := w.check.all(e, body); err != nil {
		return nil, err
	}
	return e, nil
}

// encodeGzip returns body in gzip, however large that is. It is valid until
// the worker is used again.
func (w *worker) encodeGzip(body []byte) (gzipBody, error) {
	w.scratch = w.scratch[:0]
	w.deflate.Reset(&w.scratch)
	if _, err := w.deflate.Write(body); err != nil {
		return gzipBody{}, err
	}
	if err := w.deflate.Close(); err != nil {
		return gzipBody{}, err
	}
	return newGzipBody(w.scratch, body), nil
}

// encodeZstd returns body in zstd, however large that is. It is valid until
// the worker is used again.
func (w *worker) encodeZstd(body []byte) (zstdBody, error) {
	w.scratch = w.zstd.EncodeAll(body, w.scratch[:0])
	return newZstdBody(w.scratch)
}

// sink is a buffer to write to.
type sink []byte

func (s *sink) Write(p []byte) (int, error) {
	*s = append(*s, p...)
	return len(p), nil
}
