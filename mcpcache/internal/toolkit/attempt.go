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
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
)

// attempt is one time that a server is sent a call.
type attempt struct {
	*call
	place

	again   bool // the server has lost the session before
	checked bool // it has been found out whether the server has lost the session
}

// send sends the server the call, and its answer to the client. It reports whether the server has lost
// the session: then the client has been given nothing, and the call can be sent once more.
func (t *attempt) send() (lost bool, err error) {
	t.outcome, t.status = outcome.Routed, statusRouted
	r := t.request()
	s := t.server
	before := r.Header.Clone()
	err = s.authorize(r)
	t.endpoint.note(s, noCredential, err)
	if err != nil {
		return false, t.fail(s.doesNotAnswer(err))
	}
	secrets := client.Secrets(before, r.Header)
	a := &answer{attempt: t, header: make(http.Header), secrets: secrets, hiding: secrets.Filter()}
	defer t.called(a)
	defer a.forget()
	if err = a.sendRequest(r); err == nil {
		t.endpoint.note(s, noAnswer, nil)
	}
	if a.wrote {
		_ = a.write(a.hiding.Next(nil, true)) // if the client has gone, there is nobody to report that to
	}
	if a.broken {
		if t.r.Context().Err() != nil {
			return false, nil // nobody waits for it any more
		}
		return false, t.fail(s.brokenOff())
	}
	if a.held != 0 && t.mayRenew(a.held) && t.renew(r, a.header["Www-Authenticate"]) == nil {
		return t.send()
	}
	if t.isLost(a) {
		return true, nil
	}
	a.release()
	return false, t.conclude(a, err)
}

// conclude gives the client what is left of an answer, or tells why there is none. err is how the server
// has failed.
func (t *attempt) conclude(a *answer, err error) error {
	switch {
	case a.translation != nil, err == nil && a.wrote:
		return a.finish()
	case err == nil || a.wrote:
	case t.isCancelled():
		return t.fail(cancelled)
	case t.r.Context().Err() == nil:
		t.endpoint.note(t.server, noAnswer, err)
		return t.fail(t.server.doesNotAnswer(err))
	}
	return err
}

// request returns the request as the server is sent it.
func (t *attempt) request() *http.Request {
	t.in.Body.Keep() // a transport may read a request's body after it has answered
	s := t.server
	ctx := t.r.Context()
	if t.asked {
		ctx = withOwnVars(ctx)
	}
	t.asked = true
	r := t.r.WithContext(ctx) // a copy
	path := s.path
	if s.Slash().Redirects() {
		path = redirect.Twin(path)
	}
	r.URL = &url.URL{Path: path} // a query may hold a credential
	r.RequestURI = path
	r.Host = s.Host
	r.Header = passedOn(t.r.Header)
	maps.Copy(r.Header, t.callerAt(s).Credentials)
	if t.isBridged() {
		t.inOtherEra(r.Header)
	}
	// Of a legacy client nobody has checked these, and nothing is to go by another name than
	// the message.
	if _, named := r.Header["Mcp-Name"]; named {
		r.Header["Mcp-Name"] = []string{message.EncodeHeader(t.name)}
	}
	if _, named := r.Header["Mcp-Method"]; named {
		r.Header["Mcp-Method"] = []string{t.in.Method}
	}
	if t.opened != nil {
		inSession(r.Header, t.opened)
	}
	r.Header["Content-Length"] = []string{strconv.Itoa(len(t.body))}
	r.ContentLength, r.TransferEncoding, r.Trailer = int64(len(t.body)), nil, nil
	r.Body = io.NopCloser(bytes.NewReader(t.body))
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

// sendRequest has the server answer a request. What breaks off on its way over the bridge, or while it is held back, is
// answered by us; elsewhere, reverse_proxy aborts the client's connection.
func (a *answer) sendRequest(r *http.Request) error {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		aborted, _ := p.(error)
		if a.broken = a.held != 0; !a.broken && a.translation == nil || !errors.Is(aborted, http.ErrAbortHandler) {
			panic(p)
		}
	}()
	return a.attempt.server.Upstream.ServeHTTP(a, r, a.attempt.next)
}
