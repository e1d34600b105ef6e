package transports

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

const (
	// maxSmall is the largest request body that is read before the request is sent, in
	// bytes. Go's transport writes as much at once.
	maxSmall = 4 << 10
	// smallBodyVar is where the body is, for further attempts.
	smallBodyVar = "mcp_cache.small_body"
)

// smallBody is a request body that has been read.
type smallBody struct {
	of   io.ReadCloser // where it was read from
	data []byte
}

// sendWhole has a request of a small body leave in one write, and in one packet. Go's transport
// sends the header by itself unless the body is known to be in memory, since it might be
// slow to come; that costs a call of a tool some 7 % more.
//
// As before, the request is sent once more only if nothing of it was written. With a
// key for idempotency, Go would also send one again that the server may have taken, so
// that one is left as it is.
func sendWhole(req *http.Request) error {
	if n := req.ContentLength; n <= 0 || n > maxSmall || len(req.Trailer) > 0 ||
		req.Header["Idempotency-Key"] != nil || req.Header["X-Idempotency-Key"] != nil {
		return nil
	}
	body := &smallBody{of: req.Body, data: make([]byte, req.ContentLength)}
	if _, err := io.ReadFull(req.Body, body.data); err != nil {
		// Each attempt of one reverse_proxy has the same body, which the first one has read.
		before, _ := caddyhttp.GetVar(req.Context(), smallBodyVar).(*smallBody)
		if before == nil || before.of != req.Body {
			_ = req.Body.Close() // what there is to say, reading has said
			return fmt.Errorf("reading request body: %w", err)
		}
		body = before
	}
	caddyhttp.SetVar(req.Context(), smallBodyVar, body)
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body.data)), nil }
	req.Body, _ = req.GetBody()
	return nil
}
