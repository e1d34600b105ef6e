package toolkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/incoming"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// call hands a request with that body to the server that it is for, which calls the item
// by that name, and its answer to the client.
func (v *visit) call(next caddyhttp.Handler, body []byte, name string) error {
	v.outcome, v.status = exchange.OutcomeRouted, statusRouted
	r := v.outgoing(body, name)
	s := v.server
	a := &answer{v: v, header: make(http.Header)}
	defer v.called(a, name)
	defer a.forget()
	err := a.ask(r, next)
	if v.lost = a.held != 0 && v.opened.Lost(v.r.Context()); v.lost {
		return nil
	}
	a.release()
	switch {
	case a.turned != nil:
		a.turned.finish()
	case err == nil || a.wrote:
	case v.isCancelled():
		return v.fail(cancelled)
	case v.r.Context().Err() == nil:
		v.endpoint.Logger.Warn("server did not answer", zap.String("server", s.Name), zap.Error(err))
		status := http.StatusBadGateway
		if failed, ok := errors.AsType[caddyhttp.HandlerError](err); ok && failed.StatusCode >= http.StatusInternalServerError {
			status = failed.StatusCode
		}
		text := fmt.Sprintf("the MCP server %q cannot be reached", s.Name)
		if status == http.StatusGatewayTimeout {
			text = fmt.Sprintf("the MCP server %q did not answer in time", s.Name)
		}
		return v.fail(refusal{status, internalError, text, nil})
	}
	return err
}

// outgoing returns the request as the server is sent it, with that body.
func (v *visit) outgoing(body []byte, name string) *http.Request {
	v.body.Keep() // a transport may read a request's body after it has answered
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
	if v.isBridged() {
		v.inOtherEra(r.Header, body, name)
	}
	if _, named := r.Header["Mcp-Name"]; named {
		r.Header["Mcp-Name"] = []string{message.EncodeHeader(name)}
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

// kept are headers that are known to be harmless, and are not for the servers of a toolkit:
// they are about the page, the connection or the session that a client has here, or say
// where it is; or they ask for less than the answer as it is, which has to be read on its way.
var kept = []string{
	"Accept-Encoding", "Range", "If-None-Match", "If-Modified-Since",
	"Origin", "Referer", "Host", "Mcp-Session-Id", "Last-Event-Id", "Connection", "Keep-Alive", "Proxy-Connection",
	"Upgrade", "Te", "Trailer", "Transfer-Encoding", "Expect", "Content-Length", "X-Real-Ip", "X-Envoy-External-Address",
	"Cf-Connecting-Ip", "Cf-Ipcountry", "Cf-Visitor", "True-Client-Ip", "Fly-Client-Ip", "Via",
}

// passedOn returns those fields of a client's header that a server is sent: what is known
// to be harmless, and the arguments that are mirrored in the header. Whatever else a client
// sends may be a credential.
func passedOn(h http.Header) http.Header {
	passed := make(http.Header, len(h))
	for name, values := range h {
		harmless := identity.Headers(nil).Has(name) && !slices.Contains(kept, name) && !strings.HasPrefix(name, "X-Forwarded-")
		if harmless || strings.HasPrefix(name, "Mcp-Param-") {
			passed[name] = slices.Clone(values)
		}
	}
	return passed
}

// returned are the fields of a server's header that a client is given. All else is about
// what lies between us and that server: its cookies and sessions are not the endpoint's.
var returned = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Content-Language", "Cache-Control", "X-Accel-Buffering",
	"Retry-After", "Date", "Vary", "Warning",
}

// answer is the response writer of a server's answer. What is no answer of MCP becomes an
// error that names the server.
type answer struct {
	v      *visit
	header http.Header
	wrote  bool
	status int // of the server
	// replaced says that the client has been given something else.
	replaced bool
	watcher  sse.Watcher
	// turned is how the client gets it over a bridge; nil: as it is.
	turned *turned
	// beginning is that of a JSON answer, as long as it may be all of it.
	beginning []byte
	// held is a status that the client has not been given yet, as it may say that the server
	// has lost the session; 0 for none.
	held int
}

// maxError is how long an answer may be that is looked at for an error, in bytes.
const maxError = 4 << 10

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.wrote || status < http.StatusOK && status != http.StatusSwitchingProtocols {
		return
	}
	a.wrote, a.status = true, status
	if a.v.mayBeLost(status) {
		a.held, a.watcher.Format = status, sse.JSON
		return
	}
	a.begin(status)
}

// ask has the server answer a request. What breaks off on its way over the bridge is answered
// by us; elsewhere, reverse_proxy aborts the client's connection.
func (a *answer) ask(r *http.Request, next caddyhttp.Handler) error {
	defer func() {
		p := recover()
		if aborted, _ := p.(error); p != nil && (a.turned == nil || !errors.Is(aborted, http.ErrAbortHandler)) {
			panic(p)
		}
	}()
	return a.v.server.Upstream.ServeHTTP(a, r, next)
}

// forget gives back what the answer has of the memory, also if reverse_proxy aborts.
func (a *answer) forget() {
	if a.turned != nil {
		a.turned.share.Release()
	}
}

// release gives the client what has been held back.
func (a *answer) release() {
	if a.held == 0 {
		return
	}
	status, body := a.held, a.beginning
	a.held = 0
	if status == http.StatusNotFound {
		if _, err := message.ParseResponse(body); err == nil {
			status = http.StatusOK // an answer like others, which must not end the client's session
		}
	}
	a.begin(status)
	_, _ = a.pass(body) // if the client has gone, there is nobody to report that to
}

// begin gives the client the header.
func (a *answer) begin(status int) {
	h := a.v.w.Header()
	for _, name := range returned {
		if values, has := a.header[name]; has {
			h[name] = values
		}
	}
	if !a.isOfMCP(status) {
		a.replaced = true
		delete(h, "Content-Encoding")
		f := a.v.server.failed(status)
		if a.v.isCancelled() {
			f = cancelled
		}
		_ = a.v.fail(f)
		return
	}
	h["Cache-Status"] = []string{a.v.endpoint.quoted + a.v.status}
	a.v.AllowPage(h)
	a.watcher.Format = sse.FormatOf(false, a.header["Content-Type"], a.header["Content-Encoding"])
	if a.v.isBridged() {
		a.turned = a.turn(status)
		return
	}
	a.v.w.WriteHeader(status)
}

// pass gives the client a part of the answer.
func (a *answer) pass(p []byte) (int, error) {
	switch {
	case a.replaced:
		return len(p), nil
	case a.turned != nil:
		return len(p), a.turned.write(p)
	}
	return a.v.w.Write(p)
}

// isOfMCP reports whether an answer may say something to a client of MCP: it is a message
// or a stream of them, or an error in the protocol's words. What a server says of
// credentials is not for a client, who has sent it none.
func (a *answer) isOfMCP(status int) bool {
	switch {
	case status == http.StatusOK:
		media, _, _ := strings.Cut(strings.Join(a.header["Content-Type"], ","), ";")
		return incoming.IsJSON(a.header["Content-Type"]) || strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
	case status < http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusForbidden,
		status == http.StatusProxyAuthRequired:
		return false
	case status == http.StatusNotFound && a.v.client != nil && !a.v.isBridged():
		return false // it would end the client's session
	}
	return incoming.IsJSON(a.header["Content-Type"])
}

// failed is the refusal that stands for an answer that is none of MCP.
func (s *Server) failed(status int) refusal {
	text := fmt.Sprintf("the MCP server %q answered with HTTP status %d", s.Name, status)
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestEntityTooLarge:
		return refusal{status, internalError, text, nil}
	}
	return refusal{http.StatusBadGateway, internalError, text, nil}
}

// Write implements [io.Writer].
func (a *answer) Write(p []byte) (int, error) {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
	if a.held != 0 {
		if len(a.beginning)+len(p) <= maxError {
			a.beginning = append(a.beginning, p...)
			return len(p), nil
		}
		a.release() // it says more than that a session is not known
	}
	if a.replaced {
		return len(p), nil
	}
	a.watch(p)
	return a.pass(p)
}

// watch looks for notices in a part of the answer, before the client has it. In the modern
// era they have a stream of their own, which not all servers keep to.
func (a *answer) watch(p []byte) {
	if a.watcher.Format == sse.JSON && len(a.beginning)+len(p) <= maxError {
		a.beginning = append(a.beginning, p...)
	} else {
		a.beginning = nil
	}
	var kinds revision.KindSet
	a.watcher.Scan(p, func(method string) { kinds |= revision.Changed(method) })
	if kinds != 0 {
		a.v.server.Cache.Bump(kinds)
		a.v.endpoint.Observer.Noticed(kinds, exchange.FromClient)
	}
}

// called has the server's feeds look for what a call may have changed, as not all servers
// announce that; also for what the client may not have known, if the call was refused, and
// whether the server speaks the revision still.
func (v *visit) called(a *answer, tool string) {
	feeds := v.server.Feeds.All()
	var refused struct{ Error struct{ Code int } }
	_ = json.Unmarshal(a.beginning, &refused) // what is none has no code
	code := refused.Error.Code
	if v.speaks == revision.Modern && v.isOfOtherEra(a.status, code) {
		if f := v.server.feed(v.at); f != nil {
			f.Doubt()
		}
	}
	if v.method != "tools/call" {
		return
	}
	if code == invalidParams || code == headerMismatch {
		v.endpoint.Observer.Noticed(revision.SetOf(revision.Tools), exchange.FromCall)
		for _, f := range feeds {
			f.Recheck(revision.Tools)
		}
	}
	if v.server.ReadOnly(v.server.at(v.at), tool) {
		return
	}
	for _, f := range feeds {
		silent := f.MayBeSilent()
		for _, k := range revision.Kinds() {
			if silent.Has(k) {
				f.CheckSilence(k)
			}
		}
	}
}

// isOfOtherEra reports whether a modern server's refusal may come of its not being one any
// more: older ones refuse what has no session, or their methods are others. Who has no
// completion says so that way, too.
func (v *visit) isOfOtherEra(status, code int) bool {
	switch code {
	case invalidParams, headerMismatch, missingCapability, internalError:
		return false
	case methodNotFound:
		return v.method != "completion/complete"
	}
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// FlushError flushes what has been written. [http.ResponseController] calls it.
func (a *answer) FlushError() error {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
	if a.held != 0 || a.turned != nil && a.turned.isWhole() {
		return nil
	}
	return http.NewResponseController(a.v.w).Flush()
}

// Unwrap returns the writer below, for what [http.ResponseController] can do besides
// flushing.
func (a *answer) Unwrap() http.ResponseWriter { return a.v.w }

// Interface guards
var (
	_ http.ResponseWriter             = (*answer)(nil)
	_ interface{ FlushError() error } = (*answer)(nil)
)
