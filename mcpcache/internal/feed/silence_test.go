package feed

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const tools = revision.Tools

var toolsChanged = "notifications/tools/list_changed"

// A server is caught when a list has changed and no notice has said so, within a
// second; a notice that was missed for want of a stream does not count.
func TestSilentServersAreCaught(t *testing.T) {
	for name, c := range map[string]struct {
		quiet  bool
		change func(*server, *world)
		want   bool
	}{
		"announces nothing, changes nothing": {true, func(_ *server, w *world) { w.after(w.policy.TTL) }, false},
		"announces nothing": {true, func(s *server, w *world) {
			s.Set(tools, "new")
			w.after(w.policy.TTL)
		}, true},
		"says it announces": {false, func(s *server, w *world) {
			s.Set(tools, "new")
			w.after(w.policy.TTL)
		}, true},
		"announces": {false, func(s *server, w *world) {
			s.Set(tools, "new")
			s.Notify(toolsChanged)
			w.after(w.policy.TTL)
		}, false},
		"announces late": {false, func(s *server, w *world) {
			w.after(w.policy.Refresh)
			s.Set(tools, "new")
			w.group.Of(legacy).List(tools).Recheck()
			w.after(time.Second)
			s.Notify(toolsChanged)
			w.after(w.policy.TTL)
		}, false},
		"announces too late": {false, func(s *server, w *world) {
			w.after(w.policy.Refresh)
			s.Set(tools, "new")
			w.group.Of(legacy).List(tools).Recheck()
			w.after(time.Second + time.Millisecond)
			s.Notify(toolsChanged)
			w.after(w.policy.TTL)
		}, true},
		"no stream for a while": {false, func(s *server, w *world) {
			s.On("GET", refuse)
			s.Cut()
			w.after(0)
			s.Set(tools, "new")
			w.after(time.Second)
			s.On("GET", nil)
			w.after(w.policy.TTL)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			s.Quiet = c.quiet
			run(t, s, func(w *world) {
				f := w.start(legacy)
				w.after(2 * time.Second)
				c.change(s, w)
				w.after(2 * time.Second)
				if got := slices.Contains(f.Status().Silent, tools); got != c.want {
					t.Errorf("caught %v, want %v", got, c.want)
				}
				if got := slices.Equal(f.Status().Silent, []revision.Kind{tools}); got != c.want {
					t.Errorf("status says %v, want tools: %v", f.Status().Silent, c.want)
				}
				if slices.Contains(f.Status().Silent, revision.Prompts) {
					t.Error("caught at a list that has not changed")
				}
			})
		})
	}
}

// Whoever waits for a list asked for after a doubt is given that one, or an
// earlier one when time is up or the feed does not ask about now.
func TestAwait(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		w.after(w.policy.Refresh)
		s.Set(tools, "new")
		mark := w.cache.Suspect(tools)
		f.List(tools).Recheck()
		if e := f.List(tools).Await(w.Context(), mark); !e.Mark.AskedSince(mark) || e.Body.Names()[0] != "new" {
			t.Errorf("got %v", e.Body.Names())
		}
		mark = w.cache.Suspect(tools)
		f.List(tools).Recheck() // as soon as the last fetch is long enough ago
		begun := time.Now()
		if e := f.List(tools).Await(w.Context(), mark); e.Mark.AskedSince(mark) || time.Since(begun) != 0 {
			t.Errorf("with nothing under way, got %v after %s", e.Body.Names(), time.Since(begun))
		}
		w.after(w.policy.Refresh - imminent)
		if e := f.List(tools).Await(w.Context(), mark); !e.Mark.AskedSince(mark) || time.Since(begun) != w.policy.Refresh {
			t.Errorf("shortly before the fetch, got %v after %s", e.Body.Names(), time.Since(begun))
		}
		w.after(w.policy.Refresh)
		s.On(list, hang)
		mark = w.cache.Suspect(tools)
		f.List(tools).Recheck()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		if e := f.List(tools).Await(ctx, mark); e.Mark.AskedSince(mark) || time.Since(begun) != time.Second {
			t.Errorf("while the server hangs, got %v after %s", e.Body.Names(), time.Since(begun))
		}
		w.group.Stop()
		if f.List(tools).Await(w.Context(), mark) == nil {
			t.Error("a feed that has ended takes the list away")
		}
	})
}

// A server that says it announces changes is held to its word once in a while,
// until it has announced one.
func TestWhoMayBeSilent(t *testing.T) {
	for name, c := range map[string]struct {
		quiet    bool
		announce bool
		want     []bool // at once, again, after proofEach
	}{
		"announces nothing": {true, false, []bool{true, true, true}},
		"says it announces": {false, false, []bool{true, false, true}},
		"has announced":     {false, true, []bool{false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			s.Quiet = c.quiet
			run(t, s, func(w *world) {
				f := w.start(modern)
				if c.announce {
					s.Notify(toolsChanged)
				}
				w.after(proofEach)
				for i, pause := range []time.Duration{0, 0, proofEach} {
					w.after(pause)
					f.mu.Lock()
					may := f.List(tools).mayBeSilent(time.Now())
					f.mu.Unlock()
					if may != c.want[i] {
						t.Errorf("time %d: may be silent %v, want %v", i, may, c.want[i])
					}
					f.List(tools).Asked() // so that the next call has it fetched
					f.List(tools).Called(w.cache.Suspect(tools))
				}
				if _, later := f.List(revision.Discover).Called(w.cache.Suspect(revision.Discover)); later || !f.MayBeSilent() {
					t.Error("there is no notice for discover, or the other lists are forgotten")
				}
			})
		})
	}
}
