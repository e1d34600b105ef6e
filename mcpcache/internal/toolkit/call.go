package toolkit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// call hands a request with that body to the server that it is for, which calls the item
// by that name, and its answer to the client.
func (v *visit) call(next caddyhttp.Handler, body []byte, name string) error {
	v.outcome, v.status = outcome.Routed, statusRouted
	r := v.outgoing(body, name)
	s := v.server
	before := r.Header.Clone()
	err := s.authorize(r)
	v.endpoint.note(s, noCredential, err)
	if err != nil {
		return v.fail(s.doesNotAnswer(err))
	}
	secrets := client.Secrets(before, r.Header)
	a := &answer{v: v, header: make(http.Header), secrets: secrets, hiding: secrets.Filter()}
	defer v.called(a, name)
	defer a.forget()
	if err = a.ask(r, next); err == nil {
		v.endpoint.note(s, noAnswer, nil)
	}
	if a.wrote {
		_ = a.write(a.hiding.Next(nil, true)) // if the client has gone, there is nobody to report that to
	}
	if a.broken {
		if v.r.Context().Err() != nil {
			return nil // nobody waits for it any more
		}
		return v.fail(s.brokenOff())
	}
	if a.held != 0 && v.mayRenew(a.held) && v.renew(r, a.header["Www-Authenticate"]) == nil {
		return v.call(next, body, name)
	}
	if v.lost = v.isLost(a); v.lost {
		return nil
	}
	a.release()
	switch {
	case a.turned != nil, err == nil && a.wrote:
		return a.finish()
	case err == nil || a.wrote:
	case v.isCancelled():
		return v.fail(cancelled)
	case v.r.Context().Err() == nil:
		v.endpoint.note(s, noAnswer, err)
		return v.fail(s.doesNotAnswer(err))
	}
	return err
}

// outgoing returns the request as the server is sent it, with that body.
func (v *visit) outgoing(body []byte, name string) *http.Request {
	v.in.Body.Keep() // a transport may read a request's body after it has answered
	s := v.server
	ctx := v.r.Context()
	if v.asked {
		ctx = withOwnVars(ctx)
	}
	v.asked = true
	r := v.r.WithContext(ctx) // a copy
	path := s.path
	if s.Slash().Redirects() {
		path = redirect.Twin(path)
	}
	r.URL = &url.URL{Path: path} // a query may hold a credential
	r.RequestURI = path
	r.Host = s.Host
	r.Header = passedOn(v.r.Header)
	maps.Copy(r.Header, v.presents(s).Credentials)
	if v.isBridged() {
		v.inOtherEra(r.Header, body, name)
	}
	// Of a legacy client nobody has checked these, and nothing is to go by another name than
	// the message.
	if _, named := r.Header["Mcp-Name"]; named {
		r.Header["Mcp-Name"] = []string{message.EncodeHeader(name)}
	}
	if _, named := r.Header["Mcp-Method"]; named {
		r.Header["Mcp-Method"] = []string{v.in.Method}
	}
	if v.opened != nil {
		inSession(r.Header, v.opened)
	}
	r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	r.ContentLength, r.TransferEncoding, r.Trailer = int64(len(body)), nil, nil
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

// withOwnVars returns a context for one more request on behalf of the client's: of the one
// before, a transport may read Caddy's variables still, which reverse_proxy sets.
func withOwnVars(ctx context.Context) context.Context {
	if vars, ok := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		return context.WithValue(ctx, caddyhttp.VarsCtxKey, maps.Clone(vars))
	}
	return ctx
}

// ask has the server answer a request. What breaks off on its way over the bridge, or while it is held back, is
// answered by us; elsewhere, reverse_proxy aborts the client's connection.
func (a *answer) ask(r *http.Request, next caddyhttp.Handler) error {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		aborted, _ := p.(error)
		if a.broken = a.held != 0; !a.broken && a.turned == nil || !errors.Is(aborted, http.ErrAbortHandler) {
			panic(p)
		}
	}()
	return a.v.server.Upstream.ServeHTTP(a, r, next)
}

// called has the server's feeds look for what a call may have changed, as not all servers
// announce that; also for what the client may not have known, if the call was refused, and
// whether the server speaks the revision still.
func (v *visit) called(a *answer, tool string) {
	code := 0
	if response, err := message.ParseResponse(a.beginning); err == nil && response.Error != nil {
		code = response.Error.Code
	}
	if v.speaks == revision.Modern && v.isOfOtherEra(a.status, code) {
		if f := v.server.feed(v.at); f != nil {
			f.Doubt()
		}
	}
	if v.in.Method != "tools/call" {
		return
	}
	feeds, lists := v.server.Feeds.All(), v.server.Cache
	if code == jsonrpc.InvalidParams || code == jsonrpc.HeaderMismatch {
		v.server.Observer.Noticed(revision.SetOf(revision.Tools), outcome.FromCall)
		for _, f := range feeds {
			f.Misled(revision.Tools, lists.Doubt(revision.Tools))
		}
	}
	if v.server.ReadOnly(v.server.at(v.at))[tool] {
		return
	}
	for _, f := range feeds {
		for _, k := range revision.Kinds() {
			f.Called(k, lists.Doubt(k))
		}
	}
}

// isOfOtherEra reports whether a modern server's refusal may come of its not being one any
// more: older ones refuse what has no session, or their methods are others. Who has no
// completion says so that way, too.
func (v *visit) isOfOtherEra(status, code int) bool {
	switch code {
	case jsonrpc.InvalidParams, jsonrpc.HeaderMismatch, jsonrpc.MissingCapability, jsonrpc.InternalError:
		return false
	case jsonrpc.MethodNotFound:
		return v.in.Method != "completion/complete"
	}
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}
