// Package upstream reaches an MCP server through the Caddy handler that is embedded in mcp_cache.
// So the feed's requests take the same way as the clients' requests. Load balancing, health
// checks, TLS and headers are configured once.
//
// It is where the feeds' requests meet Caddy. It knows nothing of MCP.
package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
)

// errDetached is returned for a request while there is no handler to use.
var errDetached = errors.New("there is no upstream handler")

// Transport is an [http.RoundTripper] that answers requests through a Caddy
// handler. Handlers come and go with configurations; the transport stays, and
// with it the feed that uses it.
type Transport struct {
	// Host is what requests name as their Host that have none of their own; "" is that of
	// the URL. It is set before the first request.
	Host string
	// Slash knows whether the upstream redirects requests to the same path with a slash
	// more, or less. Its Addresses are set before the first request.
	Slash redirect.Slash

	handler atomic.Pointer[caddyhttp.MiddlewareHandler]
}

// Use makes h the handler for new requests; nil takes the present one away.
// Requests under way go on through the handler they were sent to.
func (t *Transport) Use(h caddyhttp.MiddlewareHandler) {
	if h == nil {
		t.handler.Store(nil)
		return
	}
	t.handler.Store(&h)
}

// RoundTrip implements [http.RoundTripper]. It follows one redirect, if that leads to the
// twin of the path. Any other is an answer: it could take a credential elsewhere.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.send(req)
	if err != nil {
		return nil, err
	}
	if again := t.redirected(req, res); again != nil {
		return t.send(again)
	}
	return res, nil
}

// send has the handler answer a request. Every call prepares a request of its own, since
// Caddy's request variables are a plain map. A panic of the handler (`reverse_proxy`
// aborts with one) ends that request only.
func (t *Transport) send(req *http.Request) (*http.Response, error) {
	handler := t.handler.Load()
	if handler == nil {
		closeBody(req)
		return nil, errDetached
	}
	// The request goes on for a moment after its caller has what it wants:
	// reverse_proxy takes an answer that is not read to its end for an accident.
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	w := newResponseWriter(ctx, req, cancel)
	stop := context.AfterFunc(req.Context(), w.abandon)
	go func() {
		defer closeBody(req)
		defer stop()
		defer func() {
			if p := recover(); p != nil {
				w.finish(panicError(p))
			}
		}()
		w.finish((*handler).ServeHTTP(w, t.prepare(req.WithContext(ctx), w), noNext))
	}()
	select {
	case <-w.ready:
		return w.res, w.err
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}

// noNext is what comes after the embedded handler on a request of the feed:
// nothing. handle_response routes of a reverse_proxy may call it.
var noNext = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })

// prepare makes an outgoing request look like one that a Caddy server
// received, as reverse_proxy expects it.
func (t *Transport) prepare(out *http.Request, w http.ResponseWriter) *http.Request {
	// "{http.request.local}" has Caddy ask the address of the connection that the
	// request came on, and panic if there is none.
	in := out.Clone(context.WithValue(out.Context(), http.LocalAddrContextKey, net.Addr(new(net.UnixAddr))))
	in.RequestURI = in.URL.RequestURI()
	in.Host = t.hostOf(in)
	// "@" is how Caddy writes a peer without an address. The feed has none,
	// so no X-Forwarded-* header is made up for it.
	in.RemoteAddr = "@"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	// reverse_proxy asks the server for its logging settings and cannot do
	// without one; the zero server has none.
	return caddyhttp.PrepareRequest(in, caddy.NewReplacer(), w, new(caddyhttp.Server))
}

// hostOf returns what a request names as its Host. A Host other than that of the URL is
// there on purpose.
func (t *Transport) hostOf(req *http.Request) string {
	if req.Host != "" && req.Host != req.URL.Host {
		return req.Host
	}
	return cmp.Or(t.Host, req.URL.Host)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// panicError turns a recovered panic into an error.
func panicError(p any) error {
	if err, ok := p.(error); ok {
		return fmt.Errorf("upstream handler aborted: %w", err)
	}
	return fmt.Errorf("upstream handler panicked: %v", p)
}
