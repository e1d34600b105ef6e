package exchange

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/landing"
)

// forward hands the request to the upstream as it came, and learns from the
// answer. asked says that the request is a question whose answer may be kept.
func (x *exchange) forward(next caddyhttp.Handler, f found, asked bool) error {
	x.outcome, x.reason = f.outcome(), f.reason
	x.ticket = x.backend.Admission.Ticket()
	if asked { // it may have waited, and what was announced meanwhile is in the answer
		x.question.mark = x.backend.Cache.Mark(x.question.kind)
	}
	// An encode handler in front of this one still compresses it for the client.
	askPlain(x.r.Header)
	defer x.openSieve()()
	if x.mayTakeSeat() {
		return x.closeSieve(x.takeSeat(next, f))
	}
	if f.fallback != nil {
		return x.closeSieve(x.revalidate(next, f))
	}
	x.in.Body.Replay(x.r)
	if x.r.Method == http.MethodDelete {
		x.endSessions()
	}
	t := x.tap(f, asked)
	defer t.learner.close() // the upstream's handler may abort with a panic
	if landing.Is(x.r) {
		defer t.expectVisitor()()
	}
	return x.closeSieve(t.finish(t.serve(next)))
}

// askPlain asks for an answer that is not compressed, as it has to be read on its way. A
// signature may cover the field that says so (mcp-proxy-for-aws#313): then it stays.
func askPlain(h http.Header) {
	if !header.IsSigned(h) {
		delete(h, "Accept-Encoding")
	}
}

// tap returns the writer of the upstream's answer.
func (x *exchange) tap(f found, asked bool) *tap {
	return &tap{
		below: x.below(), x: x, reason: f.reason, fallback: f.fallback,
		header: x.w.Header(), learner: learner{x: x, asked: asked},
	}
}

// serve runs the upstream's handler. If that panics while its answer is withheld,
// the fallback is given as for any other failure; if it does because what it has is not
// taken any more, which cannot be filtered, the client is told that.
func (t *tap) serve(next caddyhttp.Handler) (err error) {
	defer func() {
		if !t.withheld && !t.x.unpassable() {
			return // the panic goes on
		}
		if p := recover(); p != nil {
			err = fmt.Errorf("upstream handler aborted: %v", p)
		}
	}()
	return t.x.backend.Upstream.ServeHTTP(t, t.x.r, next)
}

// tap is the response writer of a forwarded request. It changes nothing but the
// Cache-Status header and the server's own address, and learns from bytes before it passes
// them on. It holds nothing back unless held is set.
type tap struct {
	below   http.ResponseWriter
	x       *exchange
	reason  bypass
	learner learner

	header      http.Header
	wroteHeader bool
	// fallback is given if the upstream fails; withheld says that it has failed, or shows
	// a visitor nothing, and that its answer is dropped.
	fallback *cache.Entry
	withheld bool
	// seat says that an answer is withheld by which the upstream may say that it takes one
	// session at a time.
	seat bool
	// leave ends the request, if that is of a browser, whose user is told what is here in
	// the place of an answer that is no page. It is nil otherwise.
	leave context.CancelFunc
	// held is not nil while the upstream's answer is held back, for a second at most.
	held *held
}

// Header implements [http.ResponseWriter].
func (t *tap) Header() http.Header { return t.header }

// WriteHeader implements [http.ResponseWriter].
func (t *tap) WriteHeader(status int) {
	if t.wroteHeader {
		return
	}
	if status < 200 {
		if t.held == nil {
			t.below.WriteHeader(status)
		}
		return
	}
	t.wroteHeader = true
	t.learner.begin(status, t.header)
	t.x.learnCORS(status, t.header)
	t.x.learnSlash(status, t.header)
	if t.seat && isTaken(status) {
		t.withheld = true
		return
	}
	if t.leave != nil && isNoPage(status, t.header) {
		t.withheld = true
		t.leave()
		return
	}
	if t.fallback != nil {
		if isFailure(status) {
			t.withheld = true
			return
		}
		if t.held != nil {
			t.held.status = status
			return
		}
	}
	t.passHeader(status)
}

// passHeader hands the header on.
func (t *tap) passHeader(status int) {
	if t.fallback != nil || t.leave != nil || t.seat {
		t.replaceHeader()
	}
	t.addStatus()
	t.x.giveAddress(status, t.header, false)
	t.below.WriteHeader(status)
}

// replaceHeader makes the header that the upstream's handler has set the one of the
// answer.
func (t *tap) replaceHeader() {
	actual := t.below.Header()
	clear(actual)
	maps.Copy(actual, t.header)
	t.header = actual
}

// addStatus adds our Cache-Status after those of caches nearer to the origin (RFC
// 9211 section 2).
func (t *tap) addStatus() {
	value := forwarded(t.x.endpoint.status, t.reason, t.learner.storing())
	if t.reason == understood {
		value += keptApart(t.x.apart)
	}
	present := t.header["Cache-Status"]
	t.header["Cache-Status"] = append(slices.Clip(present), value)
}

// Write implements [io.Writer].
func (t *tap) Write(p []byte) (int, error) {
	if !t.wroteHeader {
		t.WriteHeader(http.StatusOK)
	}
	if t.withheld {
		return len(p), nil
	}
	t.learner.read(p)
	if t.held != nil {
		return t.hold(p)
	}
	return t.below.Write(p)
}

// FlushError flushes what has been written. [http.ResponseController] calls it.
func (t *tap) FlushError() error {
	if t.withheld {
		return nil
	}
	if !t.wroteHeader {
		t.WriteHeader(http.StatusOK)
	}
	if t.withheld || t.held != nil {
		return nil
	}
	return http.NewResponseController(t.below).Flush()
}

// Unwrap returns the writer below, for what [http.ResponseController] can do besides
// flushing. While an answer is held back it is of no use, since the client may have
// gone.
func (t *tap) Unwrap() http.ResponseWriter {
	if t.held != nil {
		return unread{}
	}
	return t.below
}

// finish is called when the upstream's handler has returned.
func (t *tap) finish(err error) error {
	t.learner.end(err)
	failed := t.withheld || err != nil && !t.wroteHeader
	if !failed {
		return err
	}
	switch {
	case t.fallback != nil:
		return t.x.answerStale(t.fallback)
	case t.withheld:
		return landing.Write(t.x.w, t.x.r, forwarded(t.x.endpoint.status, bypassMethod, false))
	}
	t.header = t.below.Header()
	t.addStatus()
	t.x.unanswered = true
	return err
}

// isFailure reports whether a status says that the upstream cannot answer now
// (RFC 5861 section 4).
func isFailure(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// Interface guards
var (
	_ http.ResponseWriter             = (*tap)(nil)
	_ interface{ FlushError() error } = (*tap)(nil)
)
