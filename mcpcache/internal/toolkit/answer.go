package toolkit

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redact"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/responsefilter"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// returned are the fields of a server's header that a client is given. All else is about
// what lies between us and that server: its cookies and sessions are not the endpoint's.
var returned = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Content-Language", "Cache-Control", "X-Accel-Buffering",
	"Retry-After", "Date", "Vary", "Warning",
}

// answer is the response writer of a server's answer. What is no answer of MCP becomes an
// error that names the server.
type answer struct {
	attempt *attempt
	header  http.Header
	wrote   bool
	status  int // of the server
	// replaced says that the client has been given something else.
	replaced bool
	watcher  sse.Watcher
	// translation is how the client gets it over a bridge, plain how without one; nil: not at all.
	translation *translation
	plain       *responsefilter.Writer
	// beginning is that of a JSON answer, as long as it may be all of it.
	beginning []byte
	// held is a status that the client has not been given yet: see [answer.holds]; 0 for none.
	held int
	// broken says that the server has broken off its answer before any of it was given to the client.
	broken bool
	// secrets are the guard's credential, and hiding hides it; nil: there is none.
	secrets *redact.Secrets
	hiding  *redact.Filter
}

const (
	// maxError is how long an answer may be that is looked at for an error, in bytes.
	maxError = 4 << 10
	// maxHeld is how much of an answer is held back, in bytes.
	maxHeld = 64 << 10
)

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.wrote || status < http.StatusOK && status != http.StatusSwitchingProtocols {
		return
	}
	a.wrote, a.status = true, status
	if a.holds(status) {
		a.held, a.watcher.Format = status, sse.JSON
		return
	}
	a.begin(status)
}

// release gives the client what has been held back.
func (a *answer) release() {
	if a.held == 0 {
		return
	}
	status, body := a.held, a.beginning
	a.held, a.beginning = 0, nil
	if status == http.StatusNotFound {
		if _, err := message.ParseResponse(body); err == nil {
			status = http.StatusOK // an answer like others, which must not end the client's session
		}
	}
	a.begin(status)
	_ = a.write(body) // if the client has gone, there is nobody to report that to
}

// begin gives the client the header.
func (a *answer) begin(status int) {
	h := a.attempt.w.Header()
	for _, name := range returned {
		if values, has := a.header[name]; has {
			h[name] = a.secrets.Texts(values)
		}
	}
	if f := a.refused(status); f != nil {
		a.replaced = true
		delete(h, "Content-Encoding")
		_ = a.attempt.fail(f)
		return
	}
	h["Cache-Status"] = []string{a.attempt.endpoint.status.Name + a.attempt.status}
	a.attempt.AllowPage(h)
	a.watcher.Format = sse.FormatOf(false, a.header["Content-Type"], a.header["Content-Encoding"])
	if a.attempt.isBridged() {
		a.translation = a.translate(status)
		return
	}
	a.plain = responsefilter.New(a.attempt.w, a.attempt.sieving(a.watcher.Format))
	a.plain.WriteHeader(status)
}

// pass gives the client a part of the answer.
func (a *answer) pass(p []byte) error {
	switch {
	case a.replaced:
		return nil
	case a.translation != nil:
		return a.translation.write(p)
	}
	_, err := a.plain.Write(p)
	return err
}

// finish gives the client what is left of the answer, of which nothing more comes.
func (a *answer) finish() error {
	switch {
	case a.translation != nil:
		a.translation.finish()
	case a.plain != nil:
		err := a.plain.Finish()
		if err != nil && !a.plain.Started() {
			delete(a.attempt.w.Header(), "Content-Length")
			delete(a.attempt.w.Header(), "Content-Encoding")
			return a.attempt.fail(a.attempt.server.unclear())
		}
		return err
	}
	return nil
}

// forget gives back what the answer has of the memory, also if reverse_proxy aborts.
func (a *answer) forget() {
	if a.translation != nil {
		a.translation.share.Release()
	}
	if a.plain != nil {
		a.plain.Close()
	}
}

// refused returns what the client gets in the place of an answer that it cannot be given, or nil.
func (a *answer) refused(status int) *jsonrpc.Problem {
	if !a.isOfMCP(status) {
		return a.failed(status)
	}
	if coding := header.Coding(a.header); coding != "" && a.secrets != nil {
		return a.attempt.server.coded(coding)
	}
	return nil
}

// isOfMCP reports whether an answer may say something to a client of MCP: it is a message
// or a stream of them, or an error in the protocol's words. What a server says of
// credentials is not for a client, who has sent it none.
func (a *answer) isOfMCP(status int) bool {
	switch {
	case status == http.StatusOK:
		media, _, _ := strings.Cut(strings.Join(a.header["Content-Type"], ","), ";")
		return header.IsJSON(a.header["Content-Type"]) || strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
	case status < http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusForbidden,
		status == http.StatusProxyAuthRequired:
		return false
	case status == http.StatusNotFound && a.attempt.client != nil && !a.attempt.isBridged():
		return false // it would end the client's session
	}
	return header.IsJSON(a.header["Content-Type"])
}

// failed is what the client gets in the place of an answer that is none of MCP.
func (a *answer) failed(status int) *jsonrpc.Problem {
	s := a.attempt.server
	switch {
	case a.attempt.isCancelled():
		return cancelled
	case status != http.StatusUnauthorized && status != http.StatusForbidden:
		return s.failed(status)
	}
	a.attempt.revoke(s)
	if s == a.attempt.endpoint.door {
		return a.attempt.reject(status, a.secrets.Texts(a.header["Www-Authenticate"]))
	}
	return s.refusing(status)
}

// coded is the refusal that stands for an answer in a content coding: nobody asked for one
// (see [Passes]), and the guard's credential could not be found in it.
func (s *Server) coded(coding string) *jsonrpc.Problem {
	return jsonrpc.Failed(http.StatusBadGateway, fmt.Sprintf("the MCP server %q answered with content coding %.40q, which nobody asked for: the credential of its guard could be in it", s.Name, coding))
}

// brokenOff is the refusal that stands for an answer that has ended too early.
func (s *Server) brokenOff() *jsonrpc.Problem {
	return jsonrpc.Failed(http.StatusBadGateway, fmt.Sprintf("the MCP server %q broke off its answer", s.Name))
}

// failed is the refusal that stands for an answer that is none of MCP.
func (s *Server) failed(status int) *jsonrpc.Problem {
	text := fmt.Sprintf("the MCP server %q answered with HTTP status %d", s.Name, status)
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestEntityTooLarge:
		return jsonrpc.Failed(status, text)
	}
	return jsonrpc.Failed(http.StatusBadGateway, text)
}

// Write implements [io.Writer].
func (a *answer) Write(p []byte) (int, error) {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
	return len(p), a.write(a.hiding.Next(p, false))
}

// write takes a part of the answer in which nothing has to be hidden.
func (a *answer) write(p []byte) error {
	if a.held != 0 {
		if len(a.beginning)+len(p) <= maxHeld {
			a.beginning = append(a.beginning, p...)
			if a.held != http.StatusOK || message.Judge(a.beginning) != message.IsResult {
				return nil
			}
			p = nil
		} else {
			a.attempt.isLost(a) // it is not sent once more: nobody writes so much of a session
		}
		a.release()
	}
	if a.replaced || len(p) == 0 {
		return nil
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
		reads := kinds & revision.SetOf(revision.Reads)
		a.attempt.server.Cache.BumpTold(reads)
		a.attempt.server.Cache.Bump(kinds &^ reads) // the client hears of it once the new list is there
		a.attempt.server.Observer.Noticed(kinds, outcome.FromClient)
		a.attempt.server.Fleet.Settle(a.attempt.r.Context())
	}
}

// FlushError flushes what has been written. [http.ResponseController] calls it.
func (a *answer) FlushError() error {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
	switch {
	case a.held != 0, a.translation != nil && a.translation.isWhole():
		return nil
	case a.plain != nil:
		return http.NewResponseController(a.plain).Flush() // unless it is held back
	}
	return http.NewResponseController(a.attempt.w).Flush()
}

// Unwrap returns the writer below, for what [http.ResponseController] can do besides
// flushing.
func (a *answer) Unwrap() http.ResponseWriter { return a.attempt.w }

// Interface guards
var (
	_ http.ResponseWriter             = (*answer)(nil)
	_ interface{ FlushError() error } = (*answer)(nil)
)
