package cache

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestNewRefusesNoMemory(t *testing.T) {
	if c, err := New(0); err == nil {
		c.Close()
		t.Error("a cache without memory was built")
	}
}

func TestBumpOutdatesWhatWasAskedBefore(t *testing.T) {
	c := newCache(t, 1<<20)
	before := c.entry(toolsOf(Anonymous), "before", 0)
	prompts := before.question()
	prompts.Kind = revision.Prompts
	other := c.entry(prompts, "prompts", 0)
	mark := c.Mark(revision.Tools)
	c.Bump(revision.SetOf(revision.Tools, revision.Resources))
	after := c.entry(toolsOf(Anonymous), "after", 0)
	late := &Entry{ // asked before the bump, arrived long after
		Kind: revision.Tools, Body: before.Body, Fetched: start.Add(time.Hour), Lifetime: time.Hour, Mark: mark,
	}
	for e, want := range map[*Entry]Freshness{before: Outdated, other: Fresh, after: Fresh, late: Outdated} {
		if got := c.Freshness(e, start); got != want {
			t.Errorf("%s: got freshness %d, want %d", e.Body.Bytes, got, want)
		}
	}
	if c.Current(revision.Tools, mark) || !c.Current(revision.Tools, after.Mark) {
		t.Error("the mark from before the bump is current, or the one after is not")
	}
	if mark.Since(after.Mark) || !after.Mark.Since(mark) || !mark.Since(mark) {
		t.Error("marks are in the wrong order")
	}
}

// What was there when the process began is as good as it says, unless a change of
// it had been announced before.
func TestMarkOfTheStart(t *testing.T) {
	c := newCache(t, 1<<20)
	e := c.entry(toolsOf(Public), "a", 0)
	for name, tt := range map[string]struct {
		mark        Mark
		before      bool
		first, then Freshness
	}{
		"start":     {Start(), false, Fresh, Outdated},
		"announced": {Mark{}, true, Outdated, Outdated},
	} {
		e.Mark = tt.mark
		if got := c.Freshness(e, start); got != tt.first || e.Mark.BeforeStart() != tt.before {
			t.Errorf("%s: freshness %d, from before: %v", name, got, e.Mark.BeforeStart())
		}
		if !c.Mark(revision.Tools).Since(tt.mark) || tt.mark.SameEpoch(Start()) == tt.before {
			t.Errorf("%s: it is not in order", name)
		}
	}
	c.Bump(revision.SetOf(revision.Tools))
	if e.Mark = Start(); c.Freshness(e, start) != Outdated || e.Mark.BeforeStart() {
		t.Error("the first notice outdates nothing")
	}
}

func TestFreshnessInTime(t *testing.T) {
	c := newCache(t, 1<<20)
	e := c.entry(toolsOf(Anonymous), "list", 0)
	for after, want := range map[time.Duration]Freshness{
		-time.Second:            Fresh,
		time.Minute - 1:         Fresh,
		time.Minute:             Expired,
		time.Minute + time.Hour: Expired,
	} {
		if got := c.Freshness(e, start.Add(after)); got != want {
			t.Errorf("after %v: got freshness %d, want %d", after, got, want)
		}
	}
	e.Lifetime = 0
	if got := c.Freshness(e, start); got != Expired {
		t.Errorf("an entry without lifetime has freshness %d", got)
	}
	c.Bump(revision.SetOf(revision.Tools))
	if got := c.Freshness(e, start.Add(time.Hour)); got != Outdated {
		t.Errorf("an expired entry has freshness %d after a change", got)
	}
}

func TestDropPages(t *testing.T) {
	c := newCache(t, 1<<20)
	page := toolsOf(Anonymous)
	page.Detail = []byte(`"cursor"`)
	prompts := page
	prompts.Kind = revision.Prompts
	whole, kept, other := c.entry(toolsOf(Anonymous), "whole", 0), c.entry(page, "page", 0), c.entry(prompts, "prompts", 0)
	c.DropPages(revision.Tools)
	again := c.entry(page, "again", 0)
	for e, want := range map[*Entry]Freshness{whole: Fresh, kept: Outdated, other: Fresh, again: Fresh} {
		if got := c.Freshness(e, start); got != want {
			t.Errorf("%s: got freshness %d, want %d", e.Body.Bytes, got, want)
		}
	}
}

func TestPinKeepsTheNewest(t *testing.T) {
	c := newCache(t, 1<<20)
	q := toolsOf(Public)
	old := c.entry(q, "old", time.Hour)
	c.Bump(revision.SetOf(revision.Tools))
	first, second := c.entry(q, "first", 0), c.entry(q, "second", time.Second)
	for _, step := range []struct {
		pin  *Entry
		want bool
	}{{old, true}, {second, true}, {first, false}, {old, false}, {second, true}} {
		if got := c.Pin(step.pin); got != step.want {
			t.Errorf("pinning %s: %v", step.pin.Body.Bytes, got)
		}
	}
	if got := c.Pinned(q.Revision, q.Kind); got != second {
		t.Errorf("%s is pinned", got.Body.Bytes)
	}
	if c.Pinned(revision.V20251125, q.Kind) != nil || c.Pinned(q.Revision, revision.Prompts) != nil {
		t.Error("it is pinned for another revision or kind too")
	}
	c.Unpin(q.Revision, q.Kind)
	if c.Pinned(q.Revision, q.Kind) != nil {
		t.Error("it is pinned still")
	}
}

// A list counts as changed with a notice only if nothing that was asked for
// before brought it, and nothing since brought another.
func TestChangedWith(t *testing.T) {
	c := newCache(t, 1<<20)
	bump := func() Mark {
		c.Bump(revision.SetOf(revision.Tools))
		return c.Mark(revision.Tools)
	}
	pinned := func(text string, mark Mark) *Entry {
		e := c.entry(toolsOf(Anonymous), text, 0)
		e.Mark = mark
		if !c.Pin(e) {
			t.Fatalf("%s is not pinned", text)
		}
		return e
	}
	want := func(want bool, what string, e *Entry, m Mark) {
		t.Helper()
		if c.ChangedWith(e, m) != want {
			t.Errorf("%s: got %t", what, !want)
		}
	}
	zero := c.Mark(revision.Tools)
	first := pinned("a", zero)
	want(false, "the first, of which nobody knows what was before", first, zero)
	one := bump()
	same := pinned("a", one)
	want(false, "the same again", same, one)
	two := bump()
	late := pinned("b", one)
	want(false, "another one that was asked for before", late, two)
	want(false, "what changed after it was looked at", late, one)
	confirmed := pinned("b", two)
	want(false, "what had been seen before already", confirmed, two)
	want(false, "one that is not pinned any more", late, one)
	changed := pinned("c", two)
	want(false, "what changed once more", changed, two)
	three := bump()
	want(true, "another one, after a notice", pinned("d", three), three)
	changed = pinned("c", three)
	want(false, "what went and came back", changed, three)
	c.Unpin(changed.Revision, revision.Tools)
	again := c.entry(toolsOf(Anonymous), "d", 0)
	c.Restore(again)
	want(false, "one from before a restart", again, zero)
	want(false, "the first after a restart", pinned("e", three), zero)
}

func TestConcurrentPins(t *testing.T) {
	c := newCache(t, 1<<20)
	q := toolsOf(Public)
	const pins = 500
	var pinners sync.WaitGroup
	for n := range 4 {
		pinners.Go(func() {
			for i := range pins {
				c.Pin(c.entry(q, "list", time.Duration(4*i+n)))
			}
		})
	}
	pinners.Wait()
	if got, want := c.Pinned(q.Revision, q.Kind).Fetched, start.Add(4*pins-1); got != want {
		t.Errorf("the pinned one was fetched at %v, want %v", got, want)
	}
}

// Whoever watches pins is told of what feeds bring, and nothing else.
func TestOnPin(t *testing.T) {
	c := newCache(t, 1<<20)
	var told []bool
	c.OnPin(func(r revision.Revision, k revision.Kind, same bool) {
		if e := c.Pinned(r, k); e == nil {
			t.Error("told before it is pinned")
		}
		told = append(told, same)
	})
	c.Restore(c.entry(toolsOf(Public), "a", 0))
	newer := c.entry(toolsOf(Public), "b", time.Hour)
	for _, e := range []*Entry{c.entry(toolsOf(Public), "a", time.Minute), newer, c.entry(toolsOf(Public), "a", time.Minute)} {
		c.Pin(e) // the last one is overtaken
	}
	c.Unpin(newer.Revision, newer.Kind)
	c.Pin(newer)
	if want := []bool{true, false, false}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

func TestWatch(t *testing.T) {
	c := newCache(t, 1<<20)
	var heard []revision.KindSet
	var outdated bool
	e := c.entry(toolsOf(Public), "list", 0)
	stop := c.Watch(func(change Change) {
		heard = append(heard, change.Kinds)
		outdated = c.Freshness(e, start) == Outdated
	})
	also := new(atomic.Int64)
	c.Watch(func(Change) { also.Add(1) })
	tools := revision.SetOf(revision.Tools)
	c.Bump(tools)
	c.Bump(0)
	if len(heard) != 1 || heard[0] != tools || !outdated {
		t.Errorf("heard %v, entry outdated by then: %v", heard, outdated)
	}
	stop()
	stop()
	c.Bump(tools)
	if len(heard) != 1 || also.Load() != 2 {
		t.Errorf("heard %d bumps after the end, the other watch heard %d in all", len(heard)-1, also.Load())
	}
}

func TestWatchAndBumpTogether(t *testing.T) {
	c := newCache(t, 1<<20)
	var heard atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				stop := c.Watch(func(Change) { heard.Add(1) })
				before := heard.Load()
				c.Bump(revision.SetOf(revision.Prompts))
				if heard.Load() == before {
					t.Error("a bump was not heard")
				}
				stop()
			}
		})
	}
	all.Wait()
	if got := c.Mark(revision.Prompts).epoch - firstEpoch; got != 4*200 {
		t.Errorf("counted %d bumps, want %d", got, 4*200)
	}
}
