package integration

import (
	"net/http"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
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
		if !fixture.Cut(err) {
			break
		}
	}
	return res, err
}
