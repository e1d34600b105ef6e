package feed

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// An upstream that has forgotten the session gets a new one, at once and once,
// and the lists are served on meanwhile.
func TestSessionLost(t *testing.T) {
	for name, tt := range map[string]struct {
		answer script // to those of a forgotten session
		by     func(w *world)
	}{
		"404 to a fetch":    {nil, func(w *world) { w.after(w.policy.TTL) }},
		"400 to a fetch":    {failure(400, -32000, ""), func(w *world) { w.after(w.policy.TTL) }},
		"404 to the stream": {nil, func(w *world) { w.server.Cut(); w.after(time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			run(t, s, func(w *world) {
				f := w.start(legacy)
				w.after(time.Minute)
				s.Forget()
				s.Do(func() { s.Items[revision.Tools] = []string{"new"} })
				if tt.answer != nil {
					for _, k := range s.Kinds {
						s.On(k.Method(), tt.answer)
					}
				} else {
					s.On("GET", status(404))
				}
				s.On("initialize", refuse)
				tt.by(w)
				w.wantState(f, Down)
				w.wantItems(legacy, revision.Tools, "tools_a", "tools_b")
				s.OnAll(nil)
				w.after(time.Minute)
				w.wantState(f, Ready)
				w.wantItems(legacy, revision.Tools, "new")
				if !f.Status().Listening {
					t.Error("the feed does not listen on the new session")
				}
			})
		})
	}
}

func TestSessionLostOnceIsOpenedOnce(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		w.after(time.Minute)
		s.Forget()
		s.Notify("notifications/tools/list_changed")
		s.Notify("notifications/prompts/list_changed")
		s.Notify("notifications/resources/list_changed")
		w.after(time.Second)
		w.wantState(f, Ready)
		w.wantCalls("initialize", 2)
		got := w.states(legacy)
		// How many fetches fail before the session is known to be lost is left
		// to chance: none, some or all.
		for _, failing := range [][]State{nil, {Degraded}, {Down}, {Degraded, Down}} {
			if slices.Equal(got, slices.Concat([]State{Hydrating, Ready}, failing, []State{Connecting, Hydrating, Ready})) {
				return
			}
		}
		t.Errorf("the log says %v", got)
	})
}

// Several fetches find out together that the session is lost. The next session
// must not be taken for lost because of the last of them.
func TestSessionLostByManyIsOpenedOnce(t *testing.T) {
	run(t, newServer(legacy), func(w *world) {
		f := w.start(legacy)
		w.after(time.Minute)
		f.mu.Lock()
		for _, k := range w.server.Kinds {
			f.lists[k].failure = &Failure{Stage: k.String(), Err: &client.StatusError{Status: 404}, At: time.Now()}
		}
		f.mu.Unlock()
		flight.Signal(f.wake)
		w.after(time.Minute)
		w.wantState(f, Ready)
		w.wantCalls("initialize", 2)
	})
}

func TestStopEndsTheSession(t *testing.T) {
	for name, tt := range map[string]struct {
		revision revision.Revision
		answer   script // to DELETE
		deletes  int
		within   time.Duration
	}{
		"legacy":           {legacy, nil, 1, 0},
		"legacy 405":       {legacy, status(405), 1, 0},
		"legacy no answer": {legacy, hang, 1, farewellTimeout},
		"legacy refused":   {legacy, refuse, 1, 0},
		"modern":           {modern, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(tt.revision)
			s.On("DELETE", tt.answer)
			run(t, s, func(w *world) {
				w.wantState(w.start(tt.revision), Ready)
				begun := time.Now()
				w.group.Stop()
				if took := time.Since(begun); took > 0 {
					t.Errorf("the feed took %v to end", took)
				}
				w.group.AwaitClosed()
				if took := time.Since(begun); took > tt.within {
					t.Errorf("it took %v, want %v", took, tt.within)
				}
				w.wantCalls("DELETE", tt.deletes)
				if tt.answer == nil && len(s.Sessions) != 0 && tt.revision == legacy {
					t.Errorf("sessions are left: %v", s.Sessions)
				}
				w.group.Start(revision.V20250618)
				if w.group.Of(revision.V20250618) != nil {
					t.Error("a feed was started after the end")
				}
			})
		})
	}
}

// Stop ends a feed wherever it is.
func TestStopAtAnyTime(t *testing.T) {
	for era, r := range both {
		for name, method := range map[string]string{
			"opening":            map[revision.Revision]string{legacy: "initialize", modern: "server/discover"}[r],
			"opening the stream": listening[r], "fetching": list, "nothing": "none",
		} {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				s.On(method, hang)
				run(t, s, func(w *world) {
					f := w.start(r)
					w.after(time.Second)
					fetch := f.List(revision.Tools).Demand(nil)
					begun := time.Now()
					w.group.Stop()
					if took := time.Since(begun); took > 0 {
						t.Errorf("it took %v", took)
					}
					if !isClosed(f.Attempted()) {
						t.Error("somebody may wait for the feed for ever")
					}
					if fetch != nil {
						_, _ = fetch.Wait(w.Context()) // must not hang
					}
				})
			})
		}
	}
}

func TestRunStartsOneFeedOfEachEra(t *testing.T) {
	s := newServer(legacy, modern)
	run(t, s, func(w *world) {
		w.group.Run()
		w.group.Run()
		w.after(0)
		feeds := w.group.All()
		if len(feeds) != 2 {
			t.Fatalf("%d feeds run", len(feeds))
		}
		for i, r := range []revision.Revision{legacy, modern} {
			w.wantState(feeds[i], Ready)
			if feeds[i].Status().Revision != r {
				t.Errorf("feed %d is of %s", i, feeds[i].Status().Revision)
			}
			w.wantItems(r, revision.Tools, "tools_a", "tools_b")
		}
	})
}

func TestStates(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		s.On("prompts/list", status(500))
		w.after(10 * time.Minute)
		w.wantState(f, Degraded)
		s.OnAll(refuse)
		w.after(30 * time.Minute)
		w.wantState(f, Down)
		for _, k := range s.Kinds {
			w.wantItems(legacy, k, k.String()+"_a", k.String()+"_b")
		}
		s.OnAll(status(401))
		w.after(time.Hour)
		w.wantState(f, NeedsAuthorization)
		s.OnAll(nil)
		w.after(time.Minute)
		w.wantState(f, Ready)
		got := w.states(legacy)
		for i := range len(got) - 1 {
			if got[i] == got[i+1] {
				t.Errorf("the log says %s twice: %v", got[i], got)
			}
		}
		if len(got) > 12 {
			t.Errorf("%d lines in the log: %v", len(got), got)
		}
	})
}

func TestKindsAreTakenOver(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				tools, all := revision.SetOf(revision.Tools), w.policy.Kinds
				w.set(func(p *Policy) { p.Kinds = tools })
				f := w.start(r)
				w.wantState(f, Ready)
				w.wantCalls("prompts/list", 0)

				w.set(func(p *Policy) { p.Kinds = all })
				w.wantState(f, Ready)
				w.wantItems(r, revision.Prompts, "prompts_a", "prompts_b")
				w.wantItems(r, revision.ResourceTemplates, "resource_templates_a", "resource_templates_b")
				w.wantCalls(list, 1) // it was there already

				release := make(chan struct{})
				s.On("prompts/list", waitFor(release, s))
				w.after(w.policy.Refresh)
				w.outdate(revision.Prompts)
				fetch := f.List(revision.Prompts).Demand(nil)
				w.after(0)
				w.set(func(p *Policy) { p.Kinds = tools })
				close(release)
				if _, err := fetch.Wait(w.Context()); err != nil {
					t.Errorf("those who waited got %v", err)
				}
				w.after(time.Hour)
				w.wantState(f, Ready)
				if w.cache.Pinned(r, revision.Prompts) != nil || f.List(revision.Prompts).Demand(nil) != nil {
					t.Error("prompts are kept although nobody wants them")
				}
				w.wantItems(r, revision.Tools, "tools_a", "tools_b")
				w.wantCalls("prompts/list", 2)
				w.wantStates(r, Hydrating, Ready, Hydrating, Ready)
			})
		})
	}
}

// A change of the kinds while a session is being opened counts for it.
func TestKindsChangeWhileConnecting(t *testing.T) {
	s := newServer(legacy)
	release := make(chan struct{})
	run(t, s, func(w *world) {
		release = make(chan struct{})
		s.On("GET", waitFor(release, s))
		f := w.start(legacy)
		w.set(func(p *Policy) { p.Kinds = revision.SetOf(revision.Prompts) })
		w.wantState(f, Hydrating)
		close(release)
		w.after(0)
		w.wantState(f, Ready)
		w.wantCalls(list, 0)
		w.wantItems(legacy, revision.Prompts, "prompts_a", "prompts_b")
	})
}
