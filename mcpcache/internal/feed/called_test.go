package feed

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// quietly runs a test with a legacy server that announces nothing, and its feed, which may fetch at once. Lists do not age.
func quietly(t *testing.T, test func(w *world, s *server, f *Feed)) {
	t.Helper()
	s := newServer(legacy)
	s.Quiet = true
	run(t, s, func(w *world) {
		w.set(func(p *Policy) { p.TTL = time.Hour })
		f := w.start(legacy)
		w.after(w.policy.Refresh)
		test(w, s, f)
	})
}

// callTools tells a feed of a call.
func (w *world) callTools(f *Feed) (caught, later bool) {
	return f.List(tools).Called(w.cache.Suspect(tools))
}

// However many calls there are, a list is fetched for them no more often than clients ask for it, nor than the
// refresh interval allows; and only the list and the revision that they ask for.
func TestCallsAreFollowedAsClientsAsk(t *testing.T) {
	for name, c := range map[string]struct {
		asks, between time.Duration // pauses between asks, 0 is never, and between calls
		want          int
	}{
		"never asked for":           {0, 10 * time.Second, 0},
		"asked for once":            {time.Hour, 10 * time.Second, 1},
		"asked for after calls":     {10 * time.Second, 10 * time.Second, 20},
		"asked for after ten calls": {10 * time.Second, time.Second, 20},
		"asked for all the time": {
			100 * time.Millisecond, 100 * time.Millisecond, 200,
		},
	} {
		t.Run(name, func(t *testing.T) {
			quietly(t, func(w *world, s *server, f *Feed) {
				before := s.Count(list)
				const during = 200 * time.Second
				var asked time.Duration
				for at := time.Duration(0); at < during; at += c.between {
					if c.asks != 0 && at >= asked {
						f.List(tools).Asked()
						asked = at + c.asks
					}
					w.callTools(f)
					f.List(revision.Prompts).Called(w.cache.Suspect(revision.Prompts)) // which nobody asks for
					w.after(c.between)
				}
				w.after(w.policy.Refresh)
				if got := s.Count(list) - before; got < c.want-1 || got > c.want+1 || c.want <= 1 && got != c.want {
					t.Errorf("the feed has asked for %d lists, want %d", got, c.want)
				}
			})
		})
	}
}

// While a fetch is under way that a call has asked for, no other one begins.
func TestFetchesAfterCallsOneByOne(t *testing.T) {
	quietly(t, func(w *world, s *server, f *Feed) {
		before := s.Count(list)
		s.On(list, hang)
		for range 2 {
			f.List(tools).Asked()
			w.callTools(f)
			w.after(w.policy.Refresh)
		}
		if got := s.Count(list) - before; got != 1 {
			t.Errorf("%d lists are under way at once", got)
		}
	})
}

// Of a list that was once changed without a notice, calls cause a fetch also if no client has asked for it: ever
// more seldom while nothing changes, and soon after a change.
func TestPausesAfterCallsGrow(t *testing.T) {
	quietly(t, func(w *world, s *server, f *Feed) {
		for _, tool := range []string{"one", "two"} {
			s.Set(tools, tool)
			f.List(tools).Asked()
			w.callTools(f)
			w.after(w.policy.Refresh)
			if got := w.cache.Pinned(legacy, tools).Body.Names(); !slices.Equal(got, []string{tool}) {
				t.Fatalf("after a call that has changed it, the list is %v", got)
			}
			var fetched []time.Time
			for count := s.Count(list); len(fetched) < 6; {
				if caught, later := w.callTools(f); !caught || !later {
					t.Fatalf("a call says caught %v, later %v", caught, later)
				}
				w.after(100 * time.Millisecond)
				if now := s.Count(list); now > count {
					fetched, count = append(fetched, time.Now()), now
				}
			}
			for n := range len(fetched) - 1 {
				if got, want := fetched[n+1].Sub(fetched[n]).Round(time.Second), 2*time.Second<<n; got != want {
					t.Errorf("pause %d is %v, want %v", n+1, got, want)
				}
			}
		}
	})
}

// A call whose fetch was put off is followed up when a client is next given the list, once. Only if that shows that calls change
// the list without a notice, so is the next call before a client asks again.
func TestAskedAfterACall(t *testing.T) {
	quietly(t, func(w *world, s *server, f *Feed) {
		for _, changes := range []bool{false, true} {
			before := s.Count(list)
			if _, later := w.callTools(f); !later {
				t.Error("a call has the list fetched, and nobody has asked")
			}
			if changes {
				s.Set(tools, "new")
			}
			answers, release := s.Script(list), make(chan struct{})
			s.On(list, waitFor(release, s))
			for range 3 { // all of them before the server answers
				f.List(tools).Asked()
			}
			s.On(list, answers)
			close(release)
			w.after(2 * w.policy.Refresh)
			if n := s.Count(list) - before; n != 1 {
				t.Errorf("the list was fetched %d times", n)
			}
			w.callTools(f)
			w.after(2 * w.policy.Refresh)
			if n := s.Count(list) - before; (n == 2) != changes {
				t.Errorf("after another call, the list was fetched %d times; it has changed: %v", n, changes)
			}
			f.List(tools).Asked()
			w.after(2 * w.policy.Refresh)
		}
		if got := w.cache.Pinned(legacy, tools).Body.Names(); !slices.Equal(got, []string{"new"}) {
			t.Errorf("the list is %v", got)
		}
	})
}

// Whoever has called waits for a list that was asked for since, though calls alone did not have it fetched.
func TestAwaitCalled(t *testing.T) {
	quietly(t, func(w *world, s *server, f *Feed) {
		const patience = 3 * time.Second
		await := func() (waited time.Duration) {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(w.Context(), patience)
			defer cancel()
			f.List(tools).AwaitCalled(ctx)
			return time.Since(begun)
		}
		before := s.Count(list)
		if await(); s.Count(list) != before {
			t.Error("without a call the list is fetched")
		}
		if caught, later := w.callTools(f); !later || caught {
			t.Error("nobody has asked for the list, and it is fetched after a call, or the server is caught already")
		}
		s.Set(tools, "new")
		if await(); w.cache.Pinned(legacy, tools).Body.Names()[0] != "new" || s.Count(list) != before+1 {
			t.Errorf("after waiting, the list is %v, fetched %d times", w.cache.Pinned(legacy, tools).Body.Names(), s.Count(list)-before)
		}
		if caught, _ := w.callTools(f); !caught {
			t.Error("the server has been caught, and a call counts for nothing")
		}
		if await() != 0 || s.Count(list) != before+1 {
			t.Error("the refresh interval is not over, and the list is waited for")
		}
		w.after(2 * w.policy.Refresh)
		s.On(list, hang)
		w.callTools(f)
		for range 2 { // the second joins the fetch of the first
			if got := await(); got != patience || s.Count(list) != before+3 {
				t.Errorf("the server hangs, and after %v the list was fetched %d times", got, s.Count(list)-before)
			}
		}
	})
}
