package upstream

import (
	"io"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
)

// maxSkipped is how much is read of an answer that is not used, in bytes, so that its
// handler can end by itself. As much as in net/http.
const maxSkipped = 2 << 10

// redirected returns the same request for the twin of its path, if the upstream sends it
// there; nil otherwise. The answer is done with then.
func (t *Transport) redirected(req *http.Request, res *http.Response) *http.Request {
	if !t.Slash.Learn(req.Method, req.URL, t.hostOf(req), res.StatusCode, res.Header.Get("Location")) {
		return nil
	}
	again := req.Clone(req.Context())
	again.URL.Path = redirect.Twin(req.URL.Path)
	if req.Body != nil && req.Body != http.NoBody {
		if req.GetBody == nil {
			return nil
		}
		body, err := req.GetBody()
		if err != nil {
			return nil
		}
		again.Body = body
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxSkipped)
	_ = res.Body.Close()
	return again
}
