package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// odd is a view that shows the tools of [toolText] with odd numbers. asked is called, if
// not nil, for each item that is looked at.
type odd struct{ asked func() }

func (odd) Key() [32]byte                  { return [32]byte{1} }
func (odd) Restricts(k revision.Kind) bool { return k == revision.Tools }
func (odd) Personal(revision.Kind) bool    { return false }

func (v odd) Shows(_ revision.Kind, item []byte) bool {
	if v.asked != nil {
		v.asked()
	}
	return isOdd(item)
}

func isOdd(item []byte) bool {
	name := message.NameOf(revision.Tools, item)
	return strings.IndexByte("13579", name[len(name)-1]) >= 0
}

// own is a view that hides nothing, though others may see something else.
type own struct{}

func (own) Key() [32]byte                    { return [32]byte{3} }
func (own) Restricts(revision.Kind) bool     { return false }
func (own) Personal(revision.Kind) bool      { return true }
func (own) Shows(revision.Kind, []byte) bool { return true }

// some is one of many views, by its number.
type some struct {
	odd
	number byte
}

func (v some) Key() [32]byte { return [32]byte{4, v.number} }

// nothing is another view, which hides all tools.
type nothing struct{ odd }

func (nothing) Key() [32]byte                    { return [32]byte{2} }
func (nothing) Shows(revision.Kind, []byte) bool { return false }

// text is all of an entry's bytes.
func (e *Entry) text() string { return string(e.AppendTo(nil, encoded.Plain)) }

// onlyOdd is what callers of that view are to be shown of so many tools.
func onlyOdd(t testing.TB, first, n int) string {
	t.Helper()
	return string(listOf(t, oddOf(toolsFrom(first, n))...).Bytes)
}

// oddOf leaves of tools those with odd numbers.
func oddOf(tools []string) []string {
	return slices.DeleteFunc(slices.Clone(tools), func(tool string) bool { return !isOdd([]byte(tool)) })
}

func TestShown(t *testing.T) {
	c := newCache(t, 64<<20)
	asked := 0
	v := odd{func() { asked++ }}
	pinned := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 10)...), 0)
	c.Pin(pinned)
	if !c.Put(c.list(toolsOf(contextNumber(1)), listOf(t, toolsFrom(0, 12)...), 0)) {
		t.Fatal("no room for a list")
	}
	parts := c.Get(toolsOf(contextNumber(1)))
	small := c.list(toolsOf(contextNumber(2)), listOf(t, `{"name":"a2"}`, `{"name":"a3"}`), 0)
	for _, tt := range []struct {
		name  string
		of    *Entry
		want  string
		again int // how many items are looked at when it is shown again
	}{
		{"pinned", pinned, onlyOdd(t, 0, 10), 0},
		{"in parts", parts, onlyOdd(t, 0, 12), 0},
		{"small", small, string(listOf(t, `{"name":"a3"}`).Bytes), 2},
		{"empty", c.list(toolsOf(Public), listOf(t), 0), string(listOf(t).Bytes), 0},
		{"page", c.list(Question{Revision: revision.V20260728, Kind: revision.Tools, Detail: []byte(`"1"`)}, listOf(t, toolsFrom(0, 4)...), 0), onlyOdd(t, 0, 4), 4},
	} {
		if got := c.VisibleTo(t.Context(), tt.of, v, start); got.text() != tt.want || got.Size() != len(tt.want) || got.Body.HasTTL != tt.of.Body.HasTTL {
			t.Errorf("%s: got %s\nwant %s", tt.name, got.text(), tt.want)
		}
		asked = 0
		if again := c.VisibleTo(t.Context(), tt.of, v, start); again.text() != tt.want || asked != tt.again {
			t.Errorf("%s: shown again, %d items are looked at, want %d", tt.name, asked, tt.again)
		}
		if got := c.VisibleTo(t.Context(), tt.of, nothing{}, start); strings.Contains(got.text(), "tool_") || got.Body.Items != 0 {
			t.Errorf("%s: another view is shown %s", tt.name, got.text())
		}
	}
	read := c.entry(Question{Revision: revision.V20260728, Kind: revision.Reads, Detail: []byte(`"a"`)}, `"contents":[]}}`, 0)
	prompts := c.entry(Question{Revision: revision.V20260728, Kind: revision.Prompts}, `"prompts":[]}}`, 0)
	if c.VisibleTo(t.Context(), read, v, start) != read || c.VisibleTo(t.Context(), prompts, v, start) != prompts {
		t.Error("what rules say nothing of is not shown as it is")
	}
	checkBooks(t, c)
}

// Whoever asks while a list is being replaced waits for no list to be made: the old one
// is ready until the new one has taken its place, and that is ready then. What nobody has
// asked for since the last time is not made.
func TestShownIsReadyBeforeItIsPinned(t *testing.T) {
	c := newCache(t, 64<<20)
	check := func() {}
	v := odd{func() { check() }}
	first := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 10)...), 0)
	c.Pin(first)
	ready := c.VisibleTo(t.Context(), first, v, start)
	check = func() {
		if c.Pinned(revision.V20260728, revision.Tools) != first {
			t.Fatal("a list is pinned before it is ready")
		}
		if c.VisibleTo(t.Context(), first, v, start) != ready {
			t.Fatal("what was ready of the old list is gone before that is")
		}
	}
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(10, 10)...), time.Second))
	check = func() { t.Fatal("it is made again") }
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(10, 10)...), 2*time.Second)) // the same bytes
	got := c.VisibleTo(t.Context(), c.Pinned(revision.V20260728, revision.Tools), v, start)
	if want := onlyOdd(t, 10, 10); got.text() != want {
		t.Errorf("got %s\nwant %s", got.text(), want)
	}
	check = func() {}
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(20, 10)...), 3*time.Second))
	check = func() { t.Fatal("it is made though nobody has asked") }
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(30, 10)...), 4*time.Second))
	p := &c.pinned[revision.V20260728][revision.Tools]
	if p.filtered.Load() != nil {
		t.Error("what nobody has asked for is ready")
	}
	c.VisibleTo(t.Context(), c.Pinned(revision.V20260728, revision.Tools), nothing{}, start)
	c.Unpin(revision.V20260728, revision.Tools)
	if p.filtered.Load() != nil {
		t.Error("a list is ready of what is not offered any more")
	}
}

// A list is ready for so many views; who comes later may take the place of one that has
// not been in use for a while, and is else shown what the bounded store keeps.
func TestViewsOfAPinnedListAreBounded(t *testing.T) {
	c := newCache(t, 64<<20)
	e := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 10)...), 0)
	c.Pin(e)
	ask := func(number byte, at time.Time) (made int) {
		t.Helper()
		v := some{odd{func() { made++ }}, number}
		if got, want := c.VisibleTo(t.Context(), e, v, at).text(), onlyOdd(t, 0, 10); got != want {
			t.Errorf("view %d: got %s", number, got)
		}
		if ready := len(c.pinned[e.Revision][e.Kind].ready); ready > maxFiltered {
			t.Fatalf("the list is ready for %d views, more than %d", ready, maxFiltered)
		}
		return made
	}
	for n := range byte(maxFiltered + 10) {
		ask(n, start.Add(time.Duration(n)*time.Millisecond))
	}
	for n := range byte(maxFiltered + 10) {
		if ask(n, start.Add(time.Second)) != 0 {
			t.Errorf("it is made again for view %d", n)
		}
	}
	later := start.Add(time.Second + idleFiltered)
	for n := range byte(maxFiltered - 1) {
		ask(n, later) // all but the last are in use
	}
	ask(200, later)
	p := &c.pinned[e.Revision][e.Kind]
	if p.findFiltered(hashOf(some{number: 200}), e.Digest()) == nil || p.findFiltered(hashOf(some{number: maxFiltered - 1}), e.Digest()) != nil {
		t.Error("the idle view has not made room")
	}
	checkBooks(t, c)
}

// The lists of 64 views of 500 tools take no more than 40 MiB, with their compressed bytes.
func TestViewsAreSmall(t *testing.T) {
	c := compressing(t, 64<<20)
	e := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 1000)...), 0)
	c.Pin(e)
	size := int64(0)
	for n := range byte(maxFiltered) {
		size += c.VisibleTo(t.Context(), e, some{number: n}, start).Body.Footprint()
	}
	c.compress(t)
	if size += c.compressed.Bytes(); size > 40<<20 {
		t.Errorf("they take %d bytes", size)
	}
	t.Logf("%d views of %d tools take %.1f MiB", maxFiltered, c.VisibleTo(t.Context(), e, some{}, start).Body.Items, float64(size)/(1<<20))
}

// What others may be shown otherwise says that it is private, whatever it said.
func TestShownIsPrivate(t *testing.T) {
	c := newCache(t, 64<<20)
	list := func(r revision.Revision, result string) *Entry {
		page, err := message.ParsePage([]byte(result), revision.Tools)
		if err != nil {
			t.Fatal(err)
		}
		e := c.list(Question{Revision: r, Kind: revision.Tools, Partition: Public}, message.Single(revision.Tools, page), 0)
		return e
	}
	const tool = `{"name":"a1"}`
	for result, want := range map[string][2]string{ // modern, legacy
		`{"tools":[` + tool + `],"cacheScope":"public"}`:             {`"tools":[` + tool + `],"cacheScope":"private"}}`, `"tools":[` + tool + `],"cacheScope":"private"}}`},
		`{"cacheScope":"public","a":1,"tools":[` + tool + `],"b":2}`: {`"cacheScope":"private","a":1,"tools":[` + tool + `],"b":2}}`, `"cacheScope":"private","a":1,"tools":[` + tool + `],"b":2}}`},
		`{"a":1,"tools":[` + tool + `],"b":2}`:                       {`"a":1,"tools":[` + tool + `],"b":2,"cacheScope":"private"}}`, `"a":1,"tools":[` + tool + `],"b":2}}`},
		`{"tools":[]}`:                                               {`"tools":[],"cacheScope":"private"}}`, `"tools":[]}}`},
		`{"tools":[` + tool + `],"cacheScope":"private"}`:            {`"tools":[` + tool + `],"cacheScope":"private"}}`, `"tools":[` + tool + `],"cacheScope":"private"}}`},
	} {
		for i, r := range []revision.Revision{revision.V20260728, revision.V20251125} {
			e := list(r, result)
			for range 2 {
				if got := c.VisibleTo(t.Context(), e, own{}, start); got.text() != want[i] || (got == e) != (e.text() == want[i]) {
					t.Errorf("%s at %s: got %s\nwant %s", result, r, got.text(), want[i])
				}
				c.Pin(e)
			}
			c.Unpin(r, revision.Tools)
		}
	}
	read := c.entry(Question{Revision: revision.V20260728, Kind: revision.Reads, Detail: []byte(`"a"`)}, `"contents":[]}}`, 0)
	if got, want := c.VisibleTo(t.Context(), read, own{}, start).text(), `"contents":[],"cacheScope":"private"}}`; got != want {
		t.Errorf("a read: got %s\nwant %s", got, want)
	}
}

// What is shown is compressed too, and given up with the list.
func TestShownIsCompressed(t *testing.T) {
	c := compressing(t, 64<<20)
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(0, 20)...), 0))
	e := c.Pinned(revision.V20260728, revision.Tools)
	shown := c.VisibleTo(t.Context(), e, odd{}, start)
	if done := c.compress(t); done != 2 {
		t.Fatalf("%d lists are compressed, want the pinned one and that which is shown", done)
	}
	whole, part := c.Encoded(e, encoded.Plain, start), c.Encoded(shown, encoded.Plain, start)
	if whole == nil || part == nil || whole == part {
		t.Fatalf("compressed: %p, shown %p", whole, part)
	}
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(20, 20)...), time.Second))
	if c.compressed.Held(shown.Digest()) != nil {
		t.Error("what was shown of a replaced list stays compressed")
	}
	if done := c.compress(t); done != 2 {
		t.Errorf("%d lists are compressed of the new one, want 2", done)
	}
}

// A list of a caller's own that took the place of another is never shown as that was,
// even if nothing but its bytes tells them apart.
func TestShownIsOfTheSameBytes(t *testing.T) {
	c := newCache(t, 64<<20)
	q := toolsOf(contextNumber(1))
	c.Put(c.list(q, listOf(t, toolsFrom(0, 10)...), 0))
	c.VisibleTo(t.Context(), c.Get(q), odd{}, start)
	c.Put(c.list(q, listOf(t, toolsFrom(10, 10)...), 0))
	for range 2 {
		if got, want := c.VisibleTo(t.Context(), c.Get(q), odd{}, start).text(), onlyOdd(t, 10, 10); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	if got := c.Get(q); got.Body.Items != 10 {
		t.Errorf("the list itself has %d items now", got.Body.Items)
	}
	checkBooks(t, c)
}

// No rule has been asked about the items of a list that has no business there.
func TestOtherListsAreNotShown(t *testing.T) {
	c := newCache(t, 64<<20)
	for _, result := range []string{
		`{"tools":[{"name":"a1"}],"resources":[{"uri":"secret://1"}]}`, `{"prompts":[{"name":"p"}],"tools":[]}`,
		`{"resourceTemplates":[],"tools":[` + strings.Join(toolsFrom(0, 3), ",") + `]}`,
	} {
		page, err := message.ParsePage([]byte(result), revision.Tools)
		if err != nil {
			t.Fatal(err)
		}
		e := c.list(toolsOf(Public), message.Single(revision.Tools, page), 0)
		c.Pin(e)
		if got := c.VisibleTo(t.Context(), e, odd{}, start); got != nil {
			t.Errorf("%s is shown as %s", result, got.text())
		}
		own := *e
		own.Partition = contextNumber(1)
		c.Put(&own)
		if got := c.VisibleTo(t.Context(), c.Get(toolsOf(contextNumber(1))), odd{}, start); got != nil {
			t.Errorf("%s of a caller's own is shown as %s", result, got.text())
		}
	}
}

// Lists change and views come and go while callers ask: each is shown what its view shows
// of the list that was found for it.
func TestShownWhileListsChange(t *testing.T) {
	c := compressing(t, 64<<20)
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer close(done)
		for n := range 300 {
			c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(n%7, 10)...), time.Duration(n)*time.Second))
		}
	})
	for range 3 {
		running.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				e := c.Pinned(revision.V20260728, revision.Tools)
				if e == nil {
					continue
				}
				if got := c.VisibleTo(t.Context(), e, odd{}, start); !bytes.Equal(got.Body.Bytes, slices.Concat(pick(e, isOdd)...)) {
					t.Errorf("got %s", got.text())
					return
				}
				if got := c.VisibleTo(t.Context(), e, nothing{}, start); got.Body.Items != 0 {
					t.Errorf("got %s", got.text())
					return
				}
				if shown := c.VisibleTo(t.Context(), e, odd{}, start); c.Encoded(shown, encoded.Plain, start) != nil {
					t.Error("compressed, though nobody does that")
				}
			}
		})
	}
	running.Wait()
	c.Unpin(revision.V20260728, revision.Tools)
	for n := range 7 {
		if c.compressed.Held(sha256.Sum256([]byte(onlyOdd(t, n, 10)))) != nil {
			t.Errorf("compressed bytes of what was shown from tool %d on are still held", n)
		}
	}
}

// pick is a list that is put together another way.
func pick(e *Entry, keep func([]byte) bool) [][]byte {
	text := e.text()
	items := message.Items([]byte(text), e.Kind)
	first, last := items[0], items[len(items)-1]
	start := strings.Index(text, string(first))
	end := strings.Index(text, string(last)) + len(last)
	kept := slices.DeleteFunc(items, func(item []byte) bool { return !keep(item) })
	return [][]byte{[]byte(text[:start]), bytes.Join(kept, []byte(",")), []byte(text[end:])}
}

// Operators are told which lists are ready as callers are shown them, and how often they
// were asked for, also before a change.
func TestShownLists(t *testing.T) {
	c := newCache(t, 64<<20)
	pinned := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 10)...), 0)
	c.Pin(pinned)
	if got := c.FilteredLists(); len(got) != 0 {
		t.Errorf("before anybody asked there are %+v", got)
	}
	for range 3 {
		c.VisibleTo(t.Context(), pinned, odd{}, start)
	}
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(0, 20)...), 0))
	c.VisibleTo(t.Context(), c.Pinned(pinned.Revision, revision.Tools), odd{}, start)
	c.VisibleTo(t.Context(), c.Pinned(pinned.Revision, revision.Tools), nothing{}, start)
	got := c.FilteredLists()
	slices.SortFunc(got, func(a, b FilteredList) int { return bytes.Compare(a.View[:], b.View[:]) })
	want := []FilteredList{
		{View: odd{}.Key(), Revision: pinned.Revision, Kind: revision.Tools, Items: 10, Bytes: len(onlyOdd(t, 0, 20)), Hits: 4},
		{View: nothing{}.Key(), Revision: pinned.Revision, Kind: revision.Tools, Bytes: len(listOf(t).Bytes), Hits: 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("there are %+v, want %+v", got, want)
	}
	c.Unpin(pinned.Revision, revision.Tools)
	if got := c.FilteredLists(); len(got) != 0 {
		t.Errorf("of a list that is gone there are %+v", got)
	}
}

// Lists that are ready for views count. Views without room share the list that is made for them,
// for as long as somebody uses it.
func TestLargeListsOfViewsAreBounded(t *testing.T) {
	const memory = 16 * largeBody
	c := newCache(t, memory)
	e := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 300)...), 0) // most of the room
	c.Pin(e)
	p := &c.pinned[e.Revision][e.Kind]
	ask := func(number byte, at time.Time) (shown *Entry, made int) {
		t.Helper()
		shown = c.VisibleTo(t.Context(), e, some{odd{func() { made++ }}, number}, at)
		if got := c.readyBytes(); got > c.readyLimit.Load() {
			t.Fatalf("%d bytes are ready, more than %d", got, c.readyLimit.Load())
		}
		return shown, made
	}
	first, _ := ask(1, start)
	second, _ := ask(2, start)
	if again, made := ask(2, start); again != second || made != 0 {
		t.Error("what is in use is made again")
	}
	if !c.isPinned(first) || c.isPinned(second) {
		t.Error("not exactly what is ready is always in memory")
	}
	third, _ := ask(2, start.Add(idleFiltered)) // by then nobody uses the first
	if !c.isPinned(third) || p.findFiltered(hashOf(some{number: 1}), e.Digest()) != nil {
		t.Error("an idle view has not made room")
	}
	larger := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 400)...), time.Second)
	c.Pin(larger)
	if n := len(p.ready); n != 0 || c.readyBytes() != 0 {
		t.Errorf("a list that has grown is ready for %d views", n)
	}
	if third.text() != onlyOdd(t, 0, 300) {
		t.Error("what was given has changed")
	}
	runtime.KeepAlive(second)
	if !c.filtering.Enter(t.Context(), 0) {
		t.Fatal("a list is being made")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if v := (some{odd{}, 9}); c.VisibleTo(gone, larger, v, start) != nil || !larger.CanBeFiltered(v) {
		t.Error("a list is made for a caller who has gone")
	}
	c.filtering.Leave()
	for len(c.passingNow()) > 0 { // until the test's own deadline
		runtime.GC()
	}
}

// passingNow returns what could not be kept and is in use.
func (c *Cache) passingNow() (all []filteredKey) {
	c.passing.Range(func(as, _ any) bool {
		all = append(all, as.(filteredKey))
		return true
	})
	return all
}
