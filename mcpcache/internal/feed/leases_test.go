package feed

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// turn is an answer to the question whose turn it is.
type turn func(own *cache.Entry) (e *cache.Entry, end func())

// leases says what is asked of it, and answers as it is told.
type leases struct {
	mu     sync.Mutex
	asked  map[revision.Kind]int
	answer turn
}

func (u *leases) Lease(_ context.Context, own *cache.Entry) (e *cache.Entry, end func()) {
	u.mu.Lock()
	u.asked[own.Kind]++
	answer := u.answer
	u.mu.Unlock()
	if own.Kind != revision.Tools {
		return nil, func() {}
	}
	return answer(own)
}

// count returns how often it was asked about a kind.
func (u *leases) count(k revision.Kind) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asked[k]
}

func (u *leases) set(answer turn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answer = answer
}

// ours is the answer that it is the caller's turn.
func ours(*cache.Entry) (e *cache.Entry, end func()) { return nil, func() {} }

// others is the answer that another instance fetches.
func others(*cache.Entry) (e *cache.Entry, end func()) { return nil, nil }

// useTurns has the feeds ask u.
func (w *world) useTurns(u *leases) {
	u.asked = make(map[revision.Kind]int)
	w.policy.Leases = u
	w.set(func(*Policy) {})
}

// startBehindOthers starts a feed while another instance fetches whatever is due.
func (w *world) startBehindOthers() (*leases, *Feed) {
	u := &leases{answer: others}
	w.useTurns(u)
	return u, w.start(modern)
}

// wantTurns fails unless it was asked so often whose turn it is to fetch the tools.
func (w *world) wantTurns(u *leases, want int) {
	w.Helper()
	if got := u.count(revision.Tools); got != want {
		w.Errorf("it was asked %d times whose turn it is, want %d", got, want)
	}
}

// elsewhere is what another instance has fetched just now.
func (w *world) elsewhere(names ...string) *cache.Entry {
	list := `{"tools":[`
	for i, name := range names {
		if i > 0 {
			list += ","
		}
		list += `{"name":"` + name + `"}`
	}
	page, err := message.ParsePage([]byte(list+`]}`), revision.Tools)
	if err != nil {
		w.Fatal(err)
	}
	now := time.Now()
	return &cache.Entry{
		Kind: revision.Tools, Revision: modern, Body: message.Single(revision.Tools, page),
		Fetched: now, Asked: now, Lifetime: 7 * time.Hour, Partition: cache.Public,
	}
}

// watching is an [Observer] that counts what it is told of the tools.
type watching struct{ refreshed, changed *atomic.Int64 }

func (o watching) Refreshed(_ revision.Revision, k revision.Kind, _ time.Duration, _ bool, _ error) {
	if k == revision.Tools {
		o.refreshed.Add(1)
	}
}

func (o watching) Changed(c Change) {
	if c.Kind == revision.Tools {
		o.changed.Add(1)
	}
}

func (watching) StateChanged(State, Status) {}

func (watching) Noticed(revision.KindSet) {}

// quiet is a server whose streams say nothing, so that nobody knows their end to be one.
func quiet() *server {
	s := newServer(modern)
	s.Quiet = true
	return s
}

// What another instance has fetched is taken as if it were our own, but for whose it is and for
// how long it is fresh, which is as we see it, and for what is said of the upstream.
func TestListOfAnotherInstance(t *testing.T) {
	run(t, quiet(), func(w *world) {
		u := &leases{answer: func(*cache.Entry) (*cache.Entry, func()) { return w.elsewhere("other"), nil }}
		w.useTurns(u)
		var refreshed, changed atomic.Int64
		w.set(func(p *Policy) { p.Observer = watching{&refreshed, &changed} })
		f := w.start(modern)
		own := w.wantItems(modern, revision.Tools, "tools_a", "tools_b")
		w.after(w.policy.TTL)
		e := w.wantItems(modern, revision.Tools, "other")
		if e.Mark != own.Mark || e.Lifetime != w.policy.TTL || e.Partition != own.Partition || e.Age(time.Now()) > w.policy.TTL/4 {
			t.Errorf("it is kept as %+v, own was %+v", e, own)
		}
		w.after(10 * w.policy.TTL)
		w.wantCalls(list, 1)
		w.wantState(f, Ready)
		if refreshed.Load() != 1 || changed.Load() != 2 {
			t.Errorf("%d lists are said to have been fetched, and %d changes", refreshed.Load(), changed.Load())
		}
		if u.count(revision.Tools) < 10 || u.count(revision.Prompts) < 10 || u.count(revision.Discover) > 0 {
			t.Error("not each list, or the server's description, was asked for in turn")
		}
		if n := w.server.Count("prompts/list"); n < 10 {
			t.Errorf("the list that was ours to fetch was fetched %d times", n)
		}
		u.set(func(*cache.Entry) (*cache.Entry, func()) { return w.elsewhere(), nil })
		w.after(w.policy.TTL)
		w.wantItems(modern, revision.Tools) // the other has made sure of it
	})
}

// A feed waits for another instance until its own list has been stale for a while, and then
// again.
func TestWaitsForAnotherInstance(t *testing.T) {
	run(t, quiet(), func(w *world) {
		u, f := w.startBehindOthers()
		w.after(w.policy.TTL + leasePatience)
		w.wantCalls(list, 1)
		if n := u.count(revision.Tools); n < int(leasePatience/leasePause) {
			t.Errorf("it looked only %d times", n)
		}
		w.after(2 * leasePause)
		w.wantCalls(list, 2)
		w.wantState(f, Ready)
		w.after(w.policy.TTL / 2)
		w.wantCalls(list, 2)
		w.after(w.policy.TTL)
		w.wantCalls(list, 3)
	})
}

// Clients who would have the list fetched meanwhile wait for the other instance, too, for whatever
// there is then, unless a change has been announced.
func TestClientsWaitForAnotherInstance(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(w *world, f *Feed, u *leases)
		want    string
		calls   int
	}{
		"it has the list": {func(w *world, _ *Feed, u *leases) {
			u.set(func(*cache.Entry) (*cache.Entry, func()) { return w.elsewhere("other"), nil })
		}, "other", 1},
		"it dies":             {func(_ *world, _ *Feed, u *leases) { u.set(ours) }, "new", 2},
		"it takes its time":   {func(w *world, _ *Feed, _ *leases) { w.after(leasePatience) }, "new", 2},
		"a client is told":    {func(w *world, _ *Feed, _ *leases) { w.outdate(revision.Tools) }, "new", 2},
		"the upstream fails":  {func(w *world, _ *Feed, u *leases) { w.server.On(list, failure(500, -32603, "")); u.set(ours) }, "", 2},
		"the feed ends":       {func(w *world, _ *Feed, _ *leases) { w.group.Stop() }, "", 1},
		"nobody wants it now": {func(w *world, _ *Feed, _ *leases) { w.set(func(p *Policy) { p.Kinds = 0 }) }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, quiet(), func(w *world) {
				u, f := w.startBehindOthers()
				w.after(w.policy.TTL)
				w.server.Set(revision.Tools, "new")
				coming := f.List(revision.Tools).Demand(nil)
				if other := f.List(revision.Tools).Demand(nil); other != coming {
					t.Error("two clients do not wait for the same")
				}
				w.wantCalls(list, 1)
				c.happens(w, f, u)
				w.after(2 * leasePause)
				e, err := coming.Wait(w.Context())
				if (err != nil) != (c.want == "") || err == nil && (e.Body.Names()[0] != c.want || !coming.Since(e.Mark)) {
					t.Errorf("a client is given %v, %v", e, err)
				}
				if n := w.server.Count(list); n != c.calls && (name != "the upstream fails" || n < c.calls) {
					t.Errorf("the list was fetched %d times, want %d", n, c.calls)
				}
			})
		})
	}
}

// A list that was asked for later is newer, though its answer came sooner. One that is not leaves
// all as it was.
func TestAnswersThatOvertake(t *testing.T) {
	run(t, quiet(), func(w *world) {
		begun := time.Now()
		u := &leases{}
		w.useTurns(u)
		give := func(name string, after time.Duration) {
			u.set(func(own *cache.Entry) (*cache.Entry, func()) {
				if own.Body.Names()[0] == name {
					return ours(own)
				}
				e := w.elsewhere(name)
				e.Asked, e.Fetched = own.Asked.Add(after), begun.Add(-time.Second)
				return e, nil
			})
		}
		give("later", time.Millisecond)
		f := w.start(modern)
		w.after(w.policy.TTL)
		w.wantCalls(list, 2) // what is taken may be due again at once
		if f.Status().Next.IsZero() {
			t.Error("no other refresh is due")
		}
		give("earlier", -time.Millisecond)
		w.after(w.policy.TTL)
		w.wantItems(modern, revision.Tools, "tools_a", "tools_b")
		if n := u.count(revision.Tools); f.Status().Next.IsZero() || n < 3 {
			t.Errorf("no other refresh is due, after %d turns", n)
		}
	})
}

// Who has the turn is told once the list is there, or the fetch has failed.
func TestTurnEndsAfterTheFetch(t *testing.T) {
	s := quiet()
	run(t, s, func(w *world) {
		var ended atomic.Int64
		u := &leases{answer: func(own *cache.Entry) (*cache.Entry, func()) {
			return nil, func() {
				ended.Add(1)
				if now := w.cache.Pinned(modern, revision.Tools); now == own || s.Count(list) != 2 {
					t.Errorf("at the end of the turn, the list is %v, of %d", now.Body.Names(), s.Count(list))
				}
			}
		}}
		w.useTurns(u)
		f := w.start(modern)
		s.Set(revision.Tools, "new")
		w.after(w.policy.TTL)
		w.wantItems(modern, revision.Tools, "new")
		if ended.Load() != 1 {
			t.Errorf("%d turns have ended", ended.Load())
		}
		u.set(func(*cache.Entry) (*cache.Entry, func()) { return nil, func() { ended.Add(1) } })
		s.On(list, failure(500, -32603, "broken"))
		w.after(w.policy.TTL)
		if w.wantState(f, Degraded); ended.Load() < 2 {
			t.Errorf("after a failure, %d turns have ended", ended.Load())
		}
		u.set(func(*cache.Entry) (*cache.Entry, func()) { return w.elsewhere("other"), nil })
		w.after(time.Minute)
		w.wantItems(modern, revision.Tools, "other") // which had more luck
		w.wantState(f, Ready)
	})
}

// Whatever is not for the list's age alone is asked for at once, by each.
func TestNoTurnsForChanges(t *testing.T) {
	for name, happens := range map[string]func(w *world, f *Feed){
		"a notice":            func(w *world, _ *Feed) { w.server.Notify(toolsChanged) },
		"a change by a call":  func(_ *world, f *Feed) { f.List(revision.Tools).Recheck() },
		"a client's failure":  func(_ *world, f *Feed) { f.SuspectSession() },
		"a stream that ended": func(w *world, _ *Feed) { w.server.Cut() },
		"a client that waits": func(w *world, f *Feed) { w.outdate(revision.Tools); f.List(revision.Tools).Demand(nil) },
		"an operator":         func(w *world, f *Feed) { go func() { _, _ = f.List(revision.Tools).Refresh(w.Context()) }() },
	} {
		for when, sofar := range map[string]time.Duration{"in time": 2 * time.Minute, "while another fetches": 5*time.Minute + time.Second} {
			t.Run(name+" "+when, func(t *testing.T) {
				s := newServer(modern)
				run(t, s, func(w *world) {
					u, f := w.startBehindOthers()
					for range sofar / time.Second { // lest the stream ends for want of use
						s.Notify("notifications/message")
						w.after(time.Second)
					}
					w.wantCalls(list, 1)
					asked := u.count(revision.Tools)
					s.Set(revision.Tools, "new")
					happens(w, f)
					w.after(leasePause / 2)
					w.wantItems(modern, revision.Tools, "new")
					w.wantCalls(list, 2)
					w.wantTurns(u, asked)
				})
			})
		}
	}
}

// A list that is due for its age already is asked for without a turn if it may have changed.
func TestNoTurnForWhatIsOverdue(t *testing.T) {
	s := quiet()
	run(t, s, func(w *world) {
		u, f := w.startBehindOthers()
		w.after(w.policy.TTL*9/10 + w.policy.Refresh) // lists are due, and may be asked for again
		busy := make(chan struct{})
		s.On("prompts/list", func(rw http.ResponseWriter, r *http.Request, c call) error {
			<-busy // one list at a time
			return result(rw, c, `{"prompts":[]}`)
		})
		f.List(revision.Prompts).Recheck()
		w.after(leasePause)
		asked := u.count(revision.Tools)
		w.after(leasePause)
		f.List(revision.Tools).Recheck()
		close(busy)
		w.after(leasePause)
		w.wantCalls(list, 2)
		w.wantTurns(u, asked)
	})
}

// So is one whose last fetch, which was not for its age, has failed.
func TestNoTurnAfterAFailure(t *testing.T) {
	s := quiet()
	run(t, s, func(w *world) {
		u, f := w.startBehindOthers()
		s.On(list, failure(500, -32603, "broken"))
		f.List(revision.Tools).Recheck()
		w.after(time.Minute)
		s.On(list, nil)
		s.Set(revision.Tools, "new")
		w.after(time.Minute)
		w.wantItems(modern, revision.Tools, "new")
		w.wantTurns(u, 0)
	})
}

// So is one that somebody doubts.
func TestNoTurnForWhatIsDoubted(t *testing.T) {
	s := quiet()
	run(t, s, func(w *world) {
		u, _ := w.startBehindOthers()
		w.cache.Suspect(revision.Tools)
		w.after(w.policy.TTL)
		w.wantCalls(list, 2)
		w.wantTurns(u, 0)
	})
}

// What is announced while it is found out whose turn it is, is not in what another instance has.
func TestChangeDuringATurn(t *testing.T) {
	s := quiet()
	run(t, s, func(w *world) {
		going := make(chan turn)
		u := &leases{answer: func(own *cache.Entry) (*cache.Entry, func()) { return (<-going)(own) }}
		w.useTurns(u)
		f := w.start(modern)
		w.after(w.policy.TTL)
		w.wantCalls(list, 1)
		s.Set(revision.Tools, "new")
		w.outdate(revision.Tools)
		e, err := f.List(revision.Tools).Demand(nil).Wait(w.Context())
		if err != nil || e.Body.Names()[0] != "new" {
			t.Fatalf("a client was given %v, %v", e, err)
		}
		f.List(revision.Prompts).Recheck()
		w.after(w.policy.Refresh)
		if n := u.count(revision.Tools); n != 1 {
			t.Errorf("whose turn it is was asked %d times at once", n)
		}
		going <- func(*cache.Entry) (*cache.Entry, func()) { return w.elsewhere("old"), nil }
		w.after(w.policy.Refresh)
		w.wantItems(modern, revision.Tools, "new")

		w.after(w.policy.TTL)
		w.outdate(revision.Tools)
		if _, err := f.List(revision.Tools).Demand(nil).Wait(w.Context()); err != nil {
			t.Fatal(err)
		}
		going <- ours
		w.after(w.policy.Refresh)
		w.wantCalls(list, 3) // nobody needs another

		w.after(w.policy.TTL)
		f.List(revision.Tools).Recheck()
		s.Set(revision.Tools, "changed")
		going <- func(*cache.Entry) (*cache.Entry, func()) { return w.elsewhere("old"), nil }
		w.after(w.policy.Refresh)
		w.wantItems(modern, revision.Tools, "changed")

		w.after(w.policy.TTL)
		w.outdate(revision.Tools)
		f.List(revision.Tools).Recheck()
		ended := false
		going <- func(*cache.Entry) (*cache.Entry, func()) { return nil, func() { ended = true } }
		u.set(ours)
		s.Set(revision.Tools, "newer")
		w.after(w.policy.Refresh)
		if w.wantItems(modern, revision.Tools, "newer"); !ended {
			t.Error("the turn has not ended")
		}
	})
}

// A turn that comes after the end of the feed is given up.
func TestTurnAfterTheEnd(t *testing.T) {
	run(t, quiet(), func(w *world) {
		going, ended := make(chan struct{}), false
		w.useTurns(&leases{answer: func(*cache.Entry) (*cache.Entry, func()) {
			<-going
			return nil, func() { ended = true }
		}})
		w.start(modern)
		w.after(w.policy.TTL)
		go w.group.Stop()
		synctest.Wait()
		close(going)
		synctest.Wait()
		if w.wantCalls(list, 1); !ended {
			t.Error("the turn has not ended")
		}
	})
}

// Several implements [Leases].
func (u *leases) Several() bool { return false }
