package feed

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// sleeper is an upstream that sleeps when the test says so.
type sleeper struct {
	asleep    atomic.Bool
	announced []string
}

func (s *sleeper) Asleep() bool           { return s.asleep.Load() }
func (s *sleeper) Announce(method string) { s.announced = append(s.announced, method) }

// sleeps has the world's upstream sleep, from the beginning if asleep.
func sleeps(w *world, asleep bool) *sleeper {
	s := new(sleeper)
	s.asleep.Store(asleep)
	w.set(func(p *Policy) { p.Sleeper = s })
	w.cache.SetAsleep(s.Asleep)
	return s
}

// While an upstream sleeps, nothing is asked, and nothing expires. Once it is used, all lists that are
// from before are fetched.
func TestNothingIsAskedOfASleeper(t *testing.T) {
	for name, r := range both {
		t.Run(name, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				sleeper := sleeps(w, false)
				f := w.start(r)
				w.wantCalls(list, 1)
				sleeper.asleep.Store(true)
				for range 3 {
					w.after(25 * time.Hour)
					e := w.cache.Pinned(r, revision.Tools)
					if w.cache.Freshness(e, time.Now()) != cache.Fresh || w.cache.Left(e, time.Now()) != e.Lifetime {
						t.Error("a list of an upstream that sleeps is not fresh")
					}
					if next := f.Status().Next; !next.IsZero() {
						t.Errorf("the next refresh is due at %s", next)
					}
				}
				w.wantCalls(list, 1)
				w.wantState(f, Ready)
				sleeper.asleep.Store(false)
				w.group.Woken(time.Now())
				w.after(time.Second)
				w.wantCalls(list, 2)
				w.group.Woken(time.Now().Add(-time.Minute)) // they were fetched since
				w.after(time.Second)
				w.wantCalls(list, 2)
				w.after(24 * time.Hour)
				if s.Count(list) < 3 {
					t.Error("nothing is fetched of an upstream that is awake")
				}
			})
		})
	}
}

// A list that the upstream does not give, though it says so, does not wake it either.
func TestSleepersAreNotWokenForNothing(t *testing.T) {
	for name, answer := range map[string]script{"no such method": failure(200, -32601, ""), "an error": failure(200, -32603, "")} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			s.On("prompts/list", answer)
			run(t, s, func(w *world) {
				sleeper := sleeps(w, false)
				w.start(modern)
				sleeper.asleep.Store(true)
				before := s.Count("prompts/list")
				w.after(25 * time.Hour)
				w.wantCalls("prompts/list", before)
				sleeper.asleep.Store(false)
				w.group.Woken(time.Now())
				w.after(time.Second)
				if s.Count("prompts/list") == before {
					t.Error("it is not asked when it is awake")
				}
			})
		})
	}
}

// An upstream that was used for a short time alone is woken once more, to say what its lists are.
func TestSleepersThatWereUsed(t *testing.T) {
	run(t, newServer(modern), func(w *world) {
		sleeper := sleeps(w, false)
		w.set(func(p *Policy) { p.Refresh = time.Minute })
		w.start(modern)
		w.after(time.Second)
		sleeper.asleep.Store(true)
		w.group.Woken(time.Now())
		w.after(2 * time.Minute)
		w.wantCalls(list, 2)
		w.after(25 * time.Hour)
		w.wantCalls(list, 2)
	})
}

// After a restart lists from before are as good as the upstream's, which sleeps. Of what it does not
// have, or was not stored, it is not asked either; if nothing was stored, it is.
func TestSleepersAfterARestart(t *testing.T) {
	run(t, newServer(modern), func(w *world) {
		sleeper := sleeps(w, true)
		w.cache.Restore(&cache.Entry{
			Kind: revision.Tools, Revision: modern, Fetched: time.Now().Add(-time.Hour), Lifetime: 1, Mark: cache.Start(),
			Body: message.Compose(revision.Tools, []byte(`"tools":[`), [][]byte{[]byte(`{"name":"stored"}`)}, []byte("]}}")),
		})
		f := w.start(modern)
		w.wantState(f, Ready)
		w.after(25 * time.Hour)
		for _, method := range []string{list, "prompts/list", "resources/list"} {
			w.wantCalls(method, 0)
		}
		if _, err := f.List(revision.Tools).Refresh(w.Context()); err != nil {
			t.Errorf("refreshing: %v", err)
		}
		synctest.Wait() // or the feed, which looks at all lists now, may see that the upstream is awake
		w.wantCalls(list, 1)
		sleeper.asleep.Store(false)
		w.group.Woken(time.Now().Add(time.Second))
		w.after(2 * time.Second)
		w.wantCalls(list, 2)
		w.wantCalls("prompts/list", 1)
	})
	run(t, newServer(modern), func(w *world) {
		sleeps(w, true)
		w.start(modern)
		w.wantCalls(list, 1)
	})
}

// What has changed while the upstream slept, and was announced to nobody, is announced.
func TestChangesOfSleepersAreAnnounced(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		sleeper := sleeps(w, false)
		w.start(modern)
		for _, step := range []struct {
			name   string
			change func()
			want   []string
		}{
			{"nothing", func() {}, nil},
			{"tools", func() { s.Set(revision.Tools, "other") }, []string{"notifications/tools/list_changed"}},
		} {
			w.after(time.Hour)
			step.change()
			sleeper.announced = nil
			w.group.Woken(time.Now())
			w.after(2 * time.Second)
			if !slices.Equal(sleeper.announced, step.want) {
				t.Errorf("%s: %q were announced", step.name, sleeper.announced)
			}
		}
	})
}

// What an operator has started anew is asked at once: while it sleeps, and though it wanted to be left
// alone, or could not be reached.
func TestAnew(t *testing.T) {
	for name, r := range both {
		t.Run(name, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				sleeper := sleeps(w, false)
				w.set(func(p *Policy) { p.Refresh = time.Hour })
				f := w.start(r)
				sleeper.asleep.Store(true)
				w.group.Anew()
				w.after(time.Second)
				w.wantCalls(list, 2)
				s.On(list, status(503, "Retry-After", "3600"))
				w.group.Anew()
				w.after(time.Second)
				w.wantState(f, Degraded)
				s.On(list, nil)
				w.group.Anew()
				w.after(time.Second)
				w.wantCalls(list, 4)
				w.wantState(f, Ready)
			})
			s = newServer(r)
			first := "initialize"
			if r == modern {
				first = "server/discover"
			}
			s.On(first, status(503, "Retry-After", "3600"))
			run(t, s, func(w *world) {
				f := w.start(r)
				w.after(time.Minute)
				w.wantState(f, Down)
				s.On(first, nil)
				w.group.Anew()
				w.after(time.Second)
				w.wantState(f, Ready)
			})
		})
	}
}
