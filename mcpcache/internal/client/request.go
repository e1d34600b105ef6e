package client

import (
	"context"
	"maps"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

// Request is what the requests of a client ask the server for besides their message. The
// zero value asks as our own requests do.
type Request struct {
	// Host is what the requests name as their Host; "" for ours. Query is the query of
	// their URL.
	Host, Query string
	// Header has further fields of their header.
	Header http.Header
}

// IsOwn reports whether the requests ask as our own do.
func (r *Request) IsOwn() bool { return r.Host == "" && r.Query == "" && len(r.Header) == 0 }

// Size returns how many bytes the requests say more than our own.
func (r *Request) Size() int {
	size := len(r.Host) + len(r.Query)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

type requestKey struct{}

// requesting makes our requests ask as the client does as which they are sent. Those that are
// not told what to call themselves in User-Agent say what we are.
type requesting struct {
	base http.RoundTripper
	as   *Identity // as which the session was opened; nil for ourselves
}

// RoundTrip implements [http.RoundTripper].
func (t *requesting) RoundTrip(req *http.Request) (*http.Response, error) {
	as := t.as
	if one, ok := req.Context().Value(requestKey{}).(*Identity); ok {
		as = one
	}
	sent := req.Clone(req.Context())
	if sent.Header["User-Agent"] == nil {
		sent.Header.Set("User-Agent", version.Agent())
	}
	if as != nil && !as.Request.IsOwn() {
		maps.Copy(sent.Header, as.Request.Header)
		sent.URL.RawQuery = as.Request.Query
		if as.Request.Host != "" {
			sent.Host = as.Request.Host
		}
	}
	return t.base.RoundTrip(sent)
}

// withIdentity returns a context whose requests ask as that client.
func withIdentity(ctx context.Context, as *Identity) context.Context {
	if as == nil {
		return ctx
	}
	return context.WithValue(ctx, requestKey{}, as)
}
