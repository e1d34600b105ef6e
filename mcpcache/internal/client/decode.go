package client

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
)

// opener begins to read a content coding. It may wait for the first bytes.
type opener func(*bufio.Reader) (io.Reader, error)

// codings are those that are read (RFC 9110 section 8.4.1, RFC 8878).
var codings = map[string]opener{
	"gzip":    func(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"x-gzip":  func(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate": openDeflate,
	"zstd":    openZstd,
}

// openDeflate reads the zlib format, or that without its header, which some servers
// send as "deflate".
func openDeflate(r *bufio.Reader) (io.Reader, error) {
	head, err := r.Peek(2)
	if err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// maxWindow bounds the memory for a zstd stream, in bytes. It is the largest
// window that HTTP allows (RFC 9659).
const maxWindow = 8 << 20

// openZstd decodes without a goroutine, so that there is nothing to close.
func openZstd(r *bufio.Reader) (io.Reader, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// decode undoes the content coding of an answer. We ask for none, but
// without Accept-Encoding any is allowed (RFC 9110 section 12.5.3).
func decode(res *http.Response) error {
	coding := header.Coding(res.Header)
	if coding == "" {
		return nil
	}
	open, ok := codings[coding]
	if !ok {
		// Not cut short: a part of a credential in it could not be recognized.
		return fmt.Errorf("upstream answered with content encoding %q, which nobody asked for", coding)
	}
	res.Header.Del("Content-Encoding")
	res.Header.Del("Content-Length")
	res.ContentLength = -1
	res.Body = &decodedBody{ReadCloser: res.Body, coding: coding, open: open}
	return nil
}

// decodedBody is a body without its content coding. Nothing is read before the
// first Read: the header of a stream comes long before its first bytes.
type decodedBody struct {
	io.ReadCloser
	coding  string
	open    opener
	decoded io.Reader // nil before the first Read
}

func (b *decodedBody) Read(p []byte) (int, error) {
	if b.decoded == nil {
		decoded, err := b.open(bufio.NewReader(b.ReadCloser))
		if err != nil {
			return 0, b.explain(err)
		}
		b.decoded = decoded
	}
	n, err := b.decoded.Read(p)
	return n, b.explain(err)
}

func (b *decodedBody) explain(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("decoding %s: %w", b.coding, err)
}
