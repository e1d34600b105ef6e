package exchange

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/landing"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/responsefilter"
)

// forwarding is a request on its way to the upstream, and the answer on its way back.
type forwarding struct {
	*exchange

	next     caddyhttp.Handler
	lookedUp lookupResult
	// keeps says that the answer may be kept: the request is a question of the cache's.
	keeps bool
	// filter takes hidden items out of the answer; nil: the answer passes as it is.
	filter *responsefilter.Writer
}

// unanswered is the error of an upstream that has answered nothing. The client has got nothing either.
type unanswered struct{ error }

// forward hands the request to the upstream as it came, and learns from the answer. keeps says that the
// answer may be kept. If f has a fallback, and the upstream fails or is too slow, forward writes nothing: its
// caller answers with the entry in instead.
func (x *exchange) forward(next caddyhttp.Handler, f lookupResult, keeps bool) (instead lookupResult, err error) {
	x.outcome, x.reason = f.outcome(), f.reason
	x.ticket = x.backend.Admission.Ticket()
	if keeps { // it may have waited, and what was announced meanwhile is in the answer
		x.question.mark = x.backend.Cache.Mark(x.question.kind)
	}
	askPlain(x.r.Header) // an encode handler in front of this one still compresses it for the client
	fw := forwarding{exchange: x, next: next, lookedUp: f, keeps: keeps}
	if f.fallback != nil {
		return fw.revalidate()
	}
	return lookupResult{}, fw.filtered(fw.handOn)
}

// filtered has ask get the upstream's answer, and takes out of that what the caller may not see.
func (fw *forwarding) filtered(ask func() error) error {
	fw.filter = fw.openFilter()
	defer fw.filter.Close()
	return fw.closeFilter(ask())
}

// below is the writer that the answer goes to.
func (fw *forwarding) below() http.ResponseWriter {
	if fw.filter != nil {
		return fw.filter
	}
	return fw.w
}

// handOn hands the request on, and the answer back.
func (fw *forwarding) handOn() error {
	if fw.mayBeBlocked() {
		return fw.openInPlace()
	}
	fw.in.Body.Replay(fw.r)
	t := fw.tap(fw.w.Header())
	if fw.r.Method == http.MethodDelete {
		t.learner.endSessions()
	}
	defer t.learner.close() // the upstream's handler may abort with a panic
	if landing.Is(fw.r) {
		defer t.expectBrowser()()
	}
	return t.finish(t.serve())
}

// askPlain asks for an answer that is not compressed, as it has to be read on its way. A
// signature may cover the field that says so (mcp-proxy-for-aws#313): then it stays.
func askPlain(h http.Header) {
	if !header.IsSigned(h) {
		delete(h, "Accept-Encoding")
	}
}

// tap returns the writer of the upstream's answer, whose handler sets that header.
func (fw *forwarding) tap(h http.Header) *tap {
	return &tap{
		forwarding: *fw, below: fw.below(), header: h, learner: learner{exchange: fw.exchange, keeps: fw.keeps},
	}
}

// answerInstead answers with the entry that forward has returned, if there is one.
func (x *exchange) answerInstead(instead lookupResult, err error) error {
	if instead.entry != nil {
		return x.answer(instead)
	}
	return err
}

// stale returns a copy that is no longer fresh, as the result of a lookup.
func (x *exchange) stale(e *cache.Entry) lookupResult {
	f := lookupResult{entry: e, stale: true}
	x.hold(&f) // if it fails, there is nothing else to answer with
	return f
}

// hold takes the memory for an answer with f, which [exchange.answer] gives back. It reports whether there is
// room.
func (x *exchange) hold(f *lookupResult) bool {
	f.hasMemory = x.backend.Cache.Hold(f.entry)
	return f.hasMemory
}

// inPlace returns a copy of the exchange in which r takes the place of the client's request, and w gets the
// answer. Other callers who wait for this exchange wait for the copy from then on.
func (x *exchange) inPlace(w http.ResponseWriter, r *http.Request) *exchange {
	x.in.Body.Keep() // both have the buffer, and the answer may be read when the client has gone
	own := *x
	x.scout = nil
	own.w, own.r = w, r
	return &own
}
