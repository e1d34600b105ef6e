package exchange

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

const (
	// revalidationTimeout is how long an upstream may take for a list whose
	// clients have been given a stale copy meanwhile.
	revalidationTimeout = 30 * time.Second
	// maxRevalidations bounds how many are under way for one endpoint. Callers
	// beyond it are given their stale copies at once.
	maxRevalidations = 256
)

// revalidation asks the upstream for a list on behalf of a caller who can be
// given a stale copy. The caller waits for a second at most; the upstream has
// longer, so that the next caller is given the list as it is, however slow the
// upstream (RFC 5861 section 3). Callers with the same question share it.
//
// It has a request of its own: the client's ends with the client.
type revalidation struct {
	began time.Time
	// done is closed when the upstream's handler has returned, after the others
	// are set.
	done chan struct{}
	// failed says that the upstream has not answered.
	failed bool
	err    error // of handing the answer on
	panic  any   // what the upstream's handler ended with while its answer was handed on
}

// asked is what callers share who share a revalidation.
type asked struct {
	question string // the cache's key
	session  string
}

// revalidations are those under way.
type revalidations struct {
	mu       sync.Mutex
	underWay map[asked]*revalidation
}

// join returns the revalidation of a question, and whether the caller has to run
// it; nil if there is no room for one more.
func (rs *revalidations) join(a asked, now time.Time) (r *revalidation, first bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.underWay[a]; r != nil {
		return r, false
	}
	if len(rs.underWay) == maxRevalidations {
		return nil, false
	}
	if rs.underWay == nil {
		rs.underWay = make(map[asked]*revalidation)
	}
	r = &revalidation{began: now, done: make(chan struct{})}
	rs.underWay[a] = r
	return r, true
}

func (rs *revalidations) end(a asked, r *revalidation) {
	rs.mu.Lock()
	delete(rs.underWay, a)
	rs.mu.Unlock()
	close(r.done)
}

// revalidate has the upstream asked, and answers with what it says, if it does so
// within the second that the caller has, or else with the fallback.
func (x *exchange) revalidate(next caddyhttp.Handler, f found) error {
	key := asked{string(x.question.in(x.context).Key()), x.session}
	r, first := x.endpoint.revalidations.join(key, x.now)
	switch {
	case r == nil:
		return x.answerStale(f.fallback)
	case !first:
		return x.awaitOther(next, f, r)
	}
	h := new(held)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), revalidationTimeout)
	// The backend's end is no reason to give up what a client waits for.
	detach := func() { context.AfterFunc(x.backend.Context(), cancel) }
	t := x.detached(ctx).tap(f, true)
	t.header, t.held = x.w.Header().Clone(), h
	go func() {
		defer x.endpoint.revalidations.end(key, r)
		defer cancel()
		r.run(t, next, h)
	}()
	timer := time.NewTimer(stalePatience - time.Since(x.arrived))
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		if h.end() {
			x.backend.SetHanging(time.Now().Add(hangingFor))
			detach()
			return x.answerStale(f.fallback)
		}
	case <-x.r.Context().Done():
		if h.end() {
			detach()
			return x.r.Context().Err()
		}
	}
	// The answer is being handed on, or has been.
	stop := context.AfterFunc(x.r.Context(), cancel)
	<-r.done
	stop()
	switch {
	case r.panic != nil:
		panic(r.panic)
	case r.failed:
		return x.answerStale(f.fallback)
	}
	return r.err
}

// run has the upstream answer t's exchange. The answer is handed on to the client
// unless the time of h is over.
func (r *revalidation) run(t *tap, next caddyhttp.Handler, h *held) {
	x := t.x
	defer x.returnScout()
	defer t.learner.close()
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case !t.withheld && !h.isOver():
			r.panic = p // the client has to see that its answer ends early
		default:
			r.failed = true
			x.endpoint.Logger.Debug("upstream handler aborted", zap.String("panic", fmt.Sprint(p)))
		}
	}()
	err := x.backend.Upstream.ServeHTTP(t, x.r, next)
	t.learner.end(err)
	if t.held != nil && t.wroteHeader && !t.withheld {
		err = t.release(err)
	}
	r.err, r.failed = err, t.withheld || err != nil && !t.wroteHeader || !t.wroteHeader
}

// awaitOther waits for a revalidation that another caller has begun.
func (x *exchange) awaitOther(next caddyhttp.Handler, f found, r *revalidation) error {
	left := min(stalePatience-time.Since(x.arrived), stalePatience-time.Since(r.began))
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		return x.answerStale(f.fallback)
	case <-x.r.Context().Done():
		return x.r.Context().Err()
	}
	x.now = time.Now()
	caller := x.caller()
	if !x.admitted(caller) { // the upstream has refused it
		return x.forward(next, found{reason: bypassAdmission}, true)
	}
	now := x.lookup(x.r.Context(), caller)
	switch {
	case now.entry != nil && x.backend.Cache.Hold(now.entry):
		defer x.backend.Cache.Release(now.entry)
		return x.answer(now)
	case !r.failed && time.Since(x.arrived) < stalePatience:
		// The answer is not for this caller, or a change was announced meanwhile.
		return x.forward(next, now, true)
	}
	return x.answerStale(f.fallback)
}

// answerStale answers with a copy that is no longer fresh.
func (x *exchange) answerStale(e *cache.Entry) error {
	if x.backend.Cache.Hold(e) { // if not, there is nothing else to answer with
		defer x.backend.Cache.Release(e)
	}
	return x.answer(found{entry: e, stale: true})
}

// detached returns the exchange with a request of its own, which nothing of the
// client's can end. What others wait for comes from it.
func (x *exchange) detached(ctx context.Context) *exchange {
	x.body.room = nil // the answer may be read when the client has gone
	own := *x
	x.scout = nil
	r := x.r.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(x.body.bytes))
	if x.replacer != nil {
		own.replacer = caddy.NewReplacer()
		values := make(map[string]any)
		for _, name := range x.backend.Placeholders {
			if value, known := x.replacer.Get(name); known {
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
	return &own
}

// unread is a response writer whose answer nobody reads.
type unread struct{}

// Header implements [http.ResponseWriter].
func (unread) Header() http.Header { return make(http.Header) }

// WriteHeader implements [http.ResponseWriter].
func (unread) WriteHeader(int) {}

// Write implements [io.Writer].
func (unread) Write(p []byte) (int, error) { return len(p), nil }
