package feed

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A stream that cannot be read is no stream: the TTL rules, and the feed does
// not say that it listens.
func TestStreamInAnUnknownCoding(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.On(listening[r], func(w http.ResponseWriter, _ *http.Request, _ call) error {
				w.Header().Set("Content-Encoding", "br")
				return reply(w, http.StatusOK, "text/event-stream", "\x0b\x00\x80")
			})
			run(t, s, func(w *world) {
				f := w.start(r)
				w.after(acknowledgeTimeout)
				if f.Status().Listening {
					t.Error("the feed says that it listens")
				}
				w.wantState(f, Ready)
				s.Set(revision.Tools, "new")
				w.after(w.policy.TTL)
				w.wantItems(r, revision.Tools, "new")
			})
		})
	}
}

// A list that speaks of notices is kept like any other, and heard but once.
func TestMentionInAListIsNoNotice(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.Set(revision.Tools, "notifications/tools/list_changed")
			run(t, s, func(w *world) {
				w.start(r)
				w.after(w.policy.TTL / 2)
				w.wantItems(r, revision.Tools, "notifications/tools/list_changed")
				w.wantCalls(list, 1)
			})
		})
	}
}

// A server that announces changes all the time though nothing has changed is asked ever more
// seldom, down to once a minute (BrowserOS#1005); as before, once there has been a change.
func TestNoticesWithoutAChange(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				f := w.start(r)
				announce := func(d time.Duration) (lists int) {
					before := s.Count(list)
					for range d / (330 * time.Millisecond) {
						s.Notify(toolsChanged)
						w.after(330 * time.Millisecond)
					}
					return s.Count(list) - before
				}
				if n := announce(time.Minute); n != 5 {
					t.Errorf("%d lists in the first minute, want those after 1, 3, 7, 15 and 31 seconds", n)
				}
				if n := announce(10 * time.Minute); n != 10 {
					t.Errorf("%d lists in the ten minutes after that", n)
				}
				if got := f.Status().InVain; !slices.Equal(got, []revision.Kind{revision.Tools}) {
					t.Errorf("changes that are none are announced of %v", got)
				}
				s.Set(revision.Tools, "new")
				for before := s.Count(list); s.Count(list) == before; {
					announce(time.Second)
				}
				w.wantItems(r, revision.Tools, "new")
				if got := f.Status().InVain; got != nil {
					t.Errorf("after a change, changes that are none are announced of %v", got)
				}
				w.after(time.Minute)
				s.Set(revision.Tools, "newer")
				s.Notify(toolsChanged)
				w.after(w.policy.Refresh)
				w.wantItems(r, revision.Tools, "newer")
				s.Set(revision.Tools, "newest")
				s.Notify(toolsChanged)
				w.after(w.policy.Refresh)
				w.wantItems(r, revision.Tools, "newest")
			})
		})
	}
}

// What other instances may have announced, and this one has missed, is no notice of the server's: it
// has nothing to do with how its notices are followed.
func TestMissedChangesAreNoNotices(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				f := w.start(r)
				s.Notify(toolsChanged)
				w.after(time.Minute)
				const often = 5
				before := s.Count(list)
				for range often {
					w.cache.Receive(cache.Change{Kinds: revision.SetOf(revision.Tools), Missed: true})
					w.after(2 * w.policy.Refresh)
				}
				if n := s.Count(list) - before; n != often {
					t.Errorf("%d lists, want one after each", n)
				}
				if got := f.Status().InVain; got != nil {
					t.Errorf("changes that are none are announced of %v", got)
				}
				s.Set(revision.Tools, "new")
				s.Notify(toolsChanged)
				w.after(2 * w.policy.Refresh)
				w.wantItems(r, revision.Tools, "new")
			})
		})
	}
}

// A server that announces a change at each list is not asked for ever (aspire#14375).
func TestListsThatProvokeNotices(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.On(list, func(rw http.ResponseWriter, req *http.Request, c call) error {
				s.Notify(toolsChanged)
				return s.Answer(rw, req, c)
			})
			run(t, s, func(w *world) {
				w.start(r)
				w.after(10 * time.Minute)
				if n := s.Count(list); n > 16 {
					t.Errorf("%d lists in ten minutes", n)
				}
			})
		})
	}
}
