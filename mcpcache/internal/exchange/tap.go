package exchange

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/landing"
)

// serve runs the upstream's handler. A panic of the handler is an error where its answer is withheld, and
// where the answer cannot be filtered and is not taken any more.
func (t *tap) serve() (err error) {
	defer func() {
		if !t.withheld && !t.unpassable() {
			return // the panic goes on
		}
		if p := recover(); p != nil {
			err = fmt.Errorf("upstream handler aborted: %v", p)
		}
	}()
	return t.backend.Upstream.ServeHTTP(t, t.r, t.next)
}

// tap is the response writer of a forwarded request. It changes nothing but the
// Cache-Status header and the server's own address, and learns from bytes before it passes
// them on. It holds nothing back unless held is set.
type tap struct {
	forwarding

	below   http.ResponseWriter
	learner learner

	header      http.Header
	wroteHeader bool
	// withheld says that the upstream has failed, or shows a visitor nothing, and that its
	// answer is dropped.
	withheld bool
	// awaitsSession is true for an initialize that the upstream may refuse because it takes one session
	// at a time. The tap withholds such a refusal.
	awaitsSession bool
	// leave ends the request, if that is of a browser, whose user is told what is here in
	// the place of an answer that is no page. It is nil otherwise.
	leave context.CancelFunc
	// held is not nil while the upstream's answer is held back, for a second at most.
	held *heldAnswer
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
	t.learner.learnCORS(status, t.header)
	t.learner.learnSlash(status, t.header)
	if t.awaitsSession && isTaken(status) {
		t.withheld = true
		return
	}
	if t.leave != nil && isNoPage(status, t.header) {
		t.withheld = true
		t.leave()
		return
	}
	if t.lookedUp.fallback != nil {
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
	if t.lookedUp.fallback != nil || t.leave != nil || t.awaitsSession {
		t.replaceHeader()
	}
	t.addStatus()
	t.giveAddress(status, t.header)
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
	value := forwarded(t.endpoint.status, t.lookedUp.reason, t.learner.storing())
	if t.lookedUp.reason == understood {
		value += keptApart(t.apart)
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
	t.learner.finish(err)
	switch {
	case t.withheld:
		return landing.Write(t.w, t.r, forwarded(t.endpoint.status, bypassMethod, false))
	case err == nil || t.wroteHeader:
		return err
	}
	t.header = t.below.Header()
	t.addStatus()
	return unanswered{err}
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
