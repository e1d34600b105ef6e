package exchange

import (
	"context"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
)

// expectBrowser prepares the writer for an answer that is of no use in a browser. The caller has to call
// done when the upstream's handler has returned.
func (t *tap) expectBrowser() (done func()) {
	ctx, cancel := context.WithCancel(t.r.Context())
	t.r, t.leave = t.r.WithContext(ctx), cancel
	t.header = t.w.Header().Clone() // an answer that is not shown leaves its cookies and its session here
	return cancel
}

// isNoPage reports whether an answer shows nothing to a person: a stream of events, or the
// refusal of whoever takes none.
func isNoPage(status int, h http.Header) bool {
	switch status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return true
	}
	return status == http.StatusOK && isStream(header.First(h["Content-Type"]))
}
