package splice

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// probe is the prefix with which encoded bodies are checked.
const probe = `{"jsonrpc":"2.0","id":1,"result":{`

var (
	errDiffers = errors.New("decoded bytes differ")
	errLonger  = errors.New("bytes after the end")
)

// checker decodes answers and compares them with what they should be. Gzip is
// decoded by the standard library, because the encoder is not from there.
type checker struct {
	gzip gzip.Reader
	zstd *zstd.Decoder
	// source is what both decoders read from. It is emptied after use: an idle
	// decoder must not keep an answer alive.
	source struct{ io.Reader }
	head   []byte
	read   []byte
}

func newChecker() (*checker, error) {
	// The window is limited to what clients accept. Concurrency 1 keeps the
	// decoder from starting goroutines.
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("making zstd decoder: %w", err)
	}
	return &checker{
		zstd: decoder,
		head: make([]byte, 0, len(probe)+MaxOverhead),
		read: make([]byte, 32<<10),
	}, nil
}

// all fails if an encoding of e does not decode to body with a prefix before it.
func (c *checker) all(e *Encoded, body []byte) error {
	if p, ok := e.Splice(c.head, Gzip, []byte(probe)); ok {
		if err := c.checkGzip(p, body); err != nil {
			return fmt.Errorf("checking gzip: %w", err)
		}
	}
	if p, ok := e.Splice(c.head, Zstd, []byte(probe)); ok {
		if err := c.checkZstd(p, body); err != nil {
			return fmt.Errorf("checking zstd: %w", err)
		}
	}
	return nil
}

func (c *checker) checkGzip(p Parts, body []byte) error {
	c.source.Reader = p.reader()
	defer func() { c.source.Reader = nil }()
	if err := c.gzip.Reset(&c.source); err != nil {
		return err
	}
	return c.compare(&c.gzip, []byte(probe), body)
}

func (c *checker) checkZstd(p Parts, body []byte) error {
	c.source.Reader = p.reader()
	defer func() { c.source.Reader = nil }()
	if err := c.zstd.Reset(&c.source); err != nil {
		return err
	}
	return c.compare(c.zstd, []byte(probe), body)
}

// compare fails unless r delivers the wanted bytes, one slice after the other,
// and nothing more.
func (c *checker) compare(r io.Reader, want ...[]byte) error {
	for _, rest := range want {
		for len(rest) > 0 {
			n, err := io.ReadFull(r, c.read[:min(len(c.read), len(rest))])
			if err != nil {
				return err
			}
			if !bytes.Equal(c.read[:n], rest[:n]) {
				return errDiffers
			}
			rest = rest[n:]
		}
	}
	// The decoders compare checksums when they reach the end.
	switch _, err := io.ReadFull(r, c.read[:1]); err {
	case io.EOF:
		return nil
	case nil:
		return errLonger
	default:
		return err
	}
}
