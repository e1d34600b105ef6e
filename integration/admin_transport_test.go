package integration

import (
	"errors"
	"io"
	"net/http"
	"syscall"
)

// adminTransport reaches Caddy's admin endpoint. Each load replaces the
// endpoint, and a connection may still be accepted by the one that is about to
// end: then the request was not read and is sent again.
type adminTransport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a adminTransport) RoundTrip(r *http.Request) (res *http.Response, err error) {
	for range 5 {
		again := r.Clone(r.Context())
		if r.GetBody != nil {
			if again.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		res, err = a.RoundTripper.RoundTrip(again)
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			break
		}
	}
	return res, err
}
