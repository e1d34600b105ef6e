package feed

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestPanicIsAnErrorOfItsFetch(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		f := w.start(modern)
		w.set(func(p *Policy) { p.Guard = &clienttest.Guard{Put: func(*http.Request) error { panic("oops") }} })
		w.outdate(revision.Tools)
		_, err := f.List(revision.Tools).Demand(nil).Wait(w.Context())
		if err == nil || !strings.Contains(err.Error(), "panicked") {
			t.Errorf("got error %v", err)
		}
		w.after(0)
		w.wantState(f, Degraded)
		w.set(func(p *Policy) { p.Guard = nil })
		w.after(2 * time.Second)
		w.wantState(f, Ready)
	})
}

// panicking panics instead of sending a request, as often as it says.
type panicking struct {
	http.RoundTripper
	left atomic.Int64
}

func (p *panicking) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.left.Add(-1) >= 0 {
		panic("oops")
	}
	return p.RoundTripper.RoundTrip(r)
}

func TestPanicsEndNothing(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			run(t, newServer(r), func(w *world) {
				p := &panicking{RoundTripper: &w.transport}
				p.left.Store(1)
				w.group.Stop()
				w.group = NewGroup("http://upstream.test/mcp", p, w.cache, func() {}, &w.policy, w.logger)
				f := w.start(r)
				w.wantState(f, Down)
				if err := f.Status().Failure.Err; !strings.Contains(err.Error(), "panicked: oops") {
					t.Errorf("the failure is %v", err)
				}
				w.after(2 * time.Second)
				w.wantState(f, Ready)

				// The fetch that is demanded is the one that panics: the feed's
				// own is not due so soon.
				w.set(func(p *Policy) { p.Refresh = 10 * time.Second })
				p.left.Store(1)
				w.outdate(revision.Tools)
				_, err := f.List(revision.Tools).Demand(nil).Wait(w.Context())
				if err == nil || !strings.Contains(err.Error(), "panicked: oops") {
					t.Errorf("got error %v", err)
				}
				w.after(2 * time.Second)
				w.wantState(f, Ready)

				p.left.Store(1) // of whom listens
				w.server.Cut()
				w.after(5 * time.Second)
				w.wantState(f, Ready)
				if !f.Status().Listening {
					t.Error("the feed does not listen again")
				}
			})
		})
	}
}
