package toolkit

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Operators see the lists as they are now, whether or not they are fresh, and for how long they are.
func TestListsOfOperators(t *testing.T) {
	one, two := serves("one"), serves("two")
	two.Hints = `"ttlMs":120000,"cacheScope":"public"`
	never := serves("never")
	never.OnAll(clienttest.Refuse)
	run(t, func(w *world) {
		want := []string{"one__tools_a", "one__tools_b", "two__tools_a", "two__tools_b"}
		for _, r := range eras {
			if e := w.Joined(r, revision.Tools); e == nil || !slices.Equal(e.Body.Names(), want) {
				t.Errorf("at %s the tools are %v", r, e)
			}
			if got := w.ListFor(nil, r, revision.Tools).Entry.Body.Names(); !slices.Equal(got, want) {
				t.Errorf("at %s anybody is shown %q", r, got)
			}
		}
		if e := w.Joined(revision.V20250618, revision.Tools); e != nil {
			t.Errorf("at a revision at which no lists are joined there are %q", e.Body.Names())
		}
		if e := w.Joined(legacy, revision.Discover); e != nil {
			t.Error("legacy clients have server/discover")
		}
		if left := w.Left(modern, revision.Tools, time.Now()); left != 2*time.Minute {
			t.Errorf("the tools are fresh for %s", left)
		}
		two.On("tools/list", clienttest.Hang)
		w.outdate(two, revision.Tools)
		if left := w.Left(modern, revision.Tools, time.Now()); left > 0 {
			t.Errorf("with a part that is outdated, the tools are fresh for %s", left)
		}
	}, one, two, never)
	run(t, func(w *world) {
		if e := w.Joined(modern, revision.Tools); e != nil {
			t.Errorf("there are tools of a server that was never reached: %q", e.Body.Names())
		}
	}, serves("never").with(func(m *member) { m.OnAll(clienttest.Refuse) }))
}

// TestAllLists returns the lists of all kinds once every server has been asked for all of its own,
// and says which kinds they have of all servers.
func TestAllLists(t *testing.T) {
	none := func(w *world) {
		for _, l := range w.AllLists() {
			t.Errorf("before there is a copy of every list, there is %s", l.Entry.Kind)
		}
	}
	late := serves("late").with(func(m *member) { m.settings.Kinds &^= revision.SetOf(revision.ResourceTemplates) })
	runWith(t, setup{waits: true}, func(w *world) {
		none(w)
		w.begin()
		var kinds revision.KindSet
		for _, l := range w.AllLists() {
			kinds |= revision.SetOf(l.Entry.Kind)
			if l.Entry.Kind == revision.Tools && !slices.Equal(l.Entry.Body.Names(), []string{"one__tools_a", "one__tools_b", "late__tools_a", "late__tools_b"}) {
				t.Errorf("the tools are %q", l.Entry.Body.Names())
			}
		}
		if want := revision.SetOf(revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates); kinds != want {
			t.Errorf("the kinds are %v, want %v", kinds, want)
		}
		if !w.Caches(revision.Tools) || w.Caches(revision.ResourceTemplates) {
			t.Errorf("of all servers are tools: %t, templates: %t", w.Caches(revision.Tools), w.Caches(revision.ResourceTemplates))
		}
	}, serves("one"), late)
	run(t, none, serves("one"), serves("never").with(func(m *member) { m.OnAll(clienttest.Refuse) }))
}
