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
func (a adminTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return fixture.Insist(func() (*http.Response, error) {
		again := r.Clone(r.Context())
		if r.GetBody != nil {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			again.Body = body
		}
		return a.RoundTripper.RoundTrip(again)
	})
}
