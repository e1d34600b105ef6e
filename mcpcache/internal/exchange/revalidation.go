package exchange

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
)

const (
	// revalidationTimeout is how long an upstream may take for a list while its
	// clients are given stale copies.
	revalidationTimeout = 30 * time.Second
	// maxRevalidations bounds how many are under way for one endpoint. Other callers
	// are given their stale copies at once.
	maxRevalidations = 256
)

// revalidation asks the upstream for a list on behalf of a caller who can be given a
// stale copy. The caller waits for a second at most; the upstream has longer, so
// that the next caller gets a fresh list even from a slow upstream (RFC 5861 section
// 3). Callers with the same question share it.
//
// It has a request of its own, because the client's ends when the client goes.
type revalidation struct {
	// The flight lands with whether the upstream has failed to answer.
	*flight.Flight[bool]

	// done is closed when the upstream's handler has returned, after the others are set.
	// That may be much later: some servers leave a stream open after the answer on it
	// (toolhive#2403, vscode#309104).
	done  chan struct{}
	err   error // why passing the answer on failed
	panic any   // of the upstream's handler, while its answer was being passed on
}

// asked is what the callers of one revalidation have in common.
type asked struct {
	question string // the cache's key
	session  string
}

// revalidate asks the upstream, unless another caller is just asking the same. The fallback is the answer
// if the upstream has not answered within a second.
func (fw *forwarding) revalidate() (instead lookupResult, err error) {
	shared, first := fw.endpoint.revalidations.Join(fw.sharers())
	switch {
	case shared == nil:
		return fw.stale(fw.lookedUp.fallback), nil
	case !first:
		return fw.awaitOther(shared)
	}
	err = fw.filtered(func() (err error) {
		instead, err = fw.askWithin(shared)
		return err
	})
	return instead, err
}

// askWithin asks the upstream, and passes on the answer if that comes within a second.
func (fw *forwarding) askWithin(shared *flight.Flight[bool]) (instead lookupResult, err error) {
	h := &heldAnswer{answered: func() { shared.Land(false, nil) }}
	ctx, cancel := context.WithCancel(context.WithoutCancel(fw.r.Context()))
	// When no client waits for it any more, time ends it, or the end of the backend.
	detach := func() {
		timer, stop := time.AfterFunc(revalidationTimeout, cancel), context.AfterFunc(fw.backend.Context(), cancel)
		context.AfterFunc(ctx, func() { timer.Stop(); stop() })
	}
	r := fw.start(ctx, cancel, shared, h)
	timer := time.NewTimer(freshness.StalePatience - time.Since(fw.arrived))
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		if h.timeOut() {
			if time.Since(fw.now) >= freshness.StalePatience { // otherwise it had waited for others before
				fw.backend.SetHanging(time.Now().Add(hangingFor))
			}
			detach()
			return fw.stale(fw.lookedUp.fallback), nil
		}
	case <-fw.r.Context().Done():
		if h.timeOut() {
			detach()
			return lookupResult{}, fw.r.Context().Err()
		}
	}
	// The answer is being handed on, or has been.
	stop := context.AfterFunc(fw.r.Context(), cancel)
	<-r.done
	stop()
	if r.panic != nil {
		panic(r.panic)
	}
	if failed, _ := r.Wait(ctx); failed {
		return fw.stale(fw.lookedUp.fallback), nil
	}
	return lookupResult{}, r.err
}

// sharers returns what the callers of one revalidation have in common.
func (x *search) sharers() asked { return asked{string(x.question.in(x.context).Key()), x.session} }

// keepAlive has the upstream answer a request, too, that is answered from memory: otherwise it may
// end the session, which looks idle to it. If it has done that, it says so.
func (x *exchange) keepAlive(next caddyhttp.Handler, f lookupResult) {
	shared, first := x.endpoint.revalidations.Join(x.sharers())
	if !first {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), revalidationTimeout)
	h := &heldAnswer{answered: func() { shared.Land(false, nil); time.AfterFunc(lingerAnswered, cancel) }}
	h.timeOut()
	stop := context.AfterFunc(x.backend.Context(), cancel)
	context.AfterFunc(ctx, func() { stop() })
	fw := forwarding{exchange: x, next: next, lookedUp: lookupResult{fallback: f.entry}, keeps: true}
	fw.start(ctx, cancel, shared, h)
}

// start has the upstream answer in the background, and cancels ctx once that is over.
func (fw *forwarding) start(ctx context.Context, cancel func(), shared *flight.Flight[bool], h *heldAnswer) *revalidation {
	r := &revalidation{Flight: shared, done: make(chan struct{})}
	own := *fw
	own.exchange = fw.detached(ctx)
	t := own.tap(fw.w.Header().Clone())
	t.held = h
	go func() {
		defer close(r.done)
		defer cancel()
		r.run(t, h)
	}()
	return r
}

// lingerAnswered is how long an event stream with an answer that nobody waits for may take to
// end by itself.
const lingerAnswered = time.Second

// run has the upstream answer t's exchange. The answer is passed on to the client
// unless the time of h is over.
func (r *revalidation) run(t *tap, h *heldAnswer) {
	failed := true
	defer func() { r.Land(failed, nil) }()
	defer t.returnScout()
	defer t.learner.close()
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case !t.withheld && t.held == nil:
			r.panic = p // the client has to see that its answer ends early
		default:
			t.endpoint.Logger.Debug("upstream handler aborted", zap.String("panic", fmt.Sprint(p)))
		}
	}()
	err := t.backend.Upstream.ServeHTTP(t, t.r, t.next)
	t.learner.finish(err)
	if t.held != nil && t.wroteHeader && !t.withheld {
		err = t.release(err)
	}
	r.err, failed = err, t.withheld || !t.wroteHeader
}

// awaitOther waits for a revalidation that another caller has begun.
func (fw *forwarding) awaitOther(shared *flight.Flight[bool]) (instead lookupResult, err error) {
	ctx, cancel := context.WithDeadline(fw.r.Context(), fw.arrived.Add(freshness.StalePatience)) // it may have waited already
	defer cancel()
	failed, err := shared.WaitUpTo(ctx, freshness.StalePatience)
	switch {
	case err == nil:
	case fw.r.Context().Err() != nil:
		return lookupResult{}, fw.r.Context().Err()
	default:
		return fw.stale(fw.lookedUp.fallback), nil
	}
	fw.now = time.Now()
	caller := fw.caller()
	if !fw.admitted(caller) { // the upstream has refused it
		return fw.forward(fw.next, lookupResult{reason: bypassAdmission}, true)
	}
	now := fw.lookup(fw.r.Context(), caller)
	switch {
	case now.entry != nil && fw.hold(&now):
		return now, nil
	case !failed && time.Since(fw.arrived) < freshness.StalePatience:
		// The answer is not for this caller, or a change was announced meanwhile.
		return fw.forward(fw.next, now, true)
	}
	return fw.stale(fw.lookedUp.fallback), nil
}

// detached returns a copy of the exchange with a request of its own, which does not
// end with the client's.
func (fw *forwarding) detached(ctx context.Context) *exchange {
	own := fw.inPlace(fw.w, fw.r.Clone(ctx))
	r := own.r
	r.Body = io.NopCloser(bytes.NewReader(fw.in.Body.Bytes))
	if fw.replacer != nil {
		own.replacer = caddy.NewReplacer()
		values := make(map[string]any)
		for _, name := range fw.backend.Placeholders {
			if value, known := fw.replacer.Get(name); known {
				values[name] = value
			}
		}
		server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
		if server == nil {
			server = new(caddyhttp.Server)
		}
		r = caddyhttp.PrepareRequest(r, own.replacer, unread{}, server)
		for name, value := range values {
			own.replacer.Set(name, value)
		}
		if vars, ok := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
			maps.Copy(r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any), vars)
		}
		if original, ok := ctx.Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
			r = r.WithContext(context.WithValue(r.Context(), caddyhttp.OriginalRequestCtxKey, original))
		}
	}
	own.r = r
	return own
}

// unread is a response writer whose answer nobody reads.
type unread struct{}

// Header implements [http.ResponseWriter].
func (unread) Header() http.Header { return make(http.Header) }

// WriteHeader implements [http.ResponseWriter].
func (unread) WriteHeader(int) {}

// Write implements [io.Writer].
func (unread) Write(p []byte) (int, error) { return len(p), nil }
