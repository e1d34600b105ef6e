package cache

import (
	"bytes"
	"crypto/sha256"
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

// nothing is another view, which hides all tools.
type nothing struct{ odd }

func (nothing) Key() [32]byte                    { return [32]byte{2} }
func (nothing) Shows(revision.Kind, []byte) bool { return false }

// text is all of an entry's bytes.
func (e *Entry) text() string { return string(e.AppendTo(nil, encoded.Plain)) }

// onlyOdd is what callers of that view are to be shown of so many tools.
func onlyOdd(t testing.TB, first, n int) string {
	t.Helper()
	tools := slices.DeleteFunc(toolsFrom(first, n), func(tool string) bool { return !isOdd([]byte(tool)) })
	return string(listOf(t, tools...).Bytes)
}

func TestShown(t *testing.T) {
	c := newCache(t, 64<<20)
	asked := 0
	v := odd{func() { asked++ }}
	c.UseViews([]View{v})
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
		if got := c.Shown(tt.of, v); got.text() != tt.want || got.Size() != len(tt.want) || got.Body.HasTTL != tt.of.Body.HasTTL {
			t.Errorf("%s: got %s\nwant %s", tt.name, got.text(), tt.want)
		}
		asked = 0
		if again := c.Shown(tt.of, v); again.text() != tt.want || asked != tt.again {
			t.Errorf("%s: shown again, %d items are looked at, want %d", tt.name, asked, tt.again)
		}
		if got := c.Shown(tt.of, nothing{}); strings.Contains(got.text(), "tool_") || got.Body.Items != 0 {
			t.Errorf("%s: another view is shown %s", tt.name, got.text())
		}
	}
	read := c.entry(Question{Revision: revision.V20260728, Kind: revision.Reads, Detail: []byte(`"a"`)}, `"contents":[]}}`, 0)
	prompts := c.entry(Question{Revision: revision.V20260728, Kind: revision.Prompts}, `"prompts":[]}}`, 0)
	if c.Shown(read, v) != read || c.Shown(prompts, v) != prompts {
		t.Error("what rules say nothing of is not shown as it is")
	}
	checkBooks(t, c)
}

// Whoever asks while a list is being replaced waits for no list to be made: the old one
// is ready until the new one has taken its place, and that is ready then.
func TestShownIsReadyBeforeItIsPinned(t *testing.T) {
	c := newCache(t, 64<<20)
	var check func()
	c.UseViews([]View{odd{func() { check() }}, nothing{}})
	check = func() {
		if c.Pinned(revision.V20260728, revision.Tools) != nil {
			t.Fatal("a list is pinned before it is ready")
		}
	}
	first := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 10)...), 0)
	c.Pin(first)
	ready := c.Shown(first, odd{})
	check = func() {
		if c.Pinned(revision.V20260728, revision.Tools) != first {
			t.Fatal("a list is pinned before it is ready")
		}
		if c.Shown(first, odd{}) != ready {
			t.Fatal("what was ready of the old list is gone before that is")
		}
	}
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(10, 10)...), time.Second))
	check = func() { t.Fatal("it is made again") }
	second := c.Pinned(revision.V20260728, revision.Tools)
	got := c.Shown(second, odd{check})
	if want := onlyOdd(t, 10, 10); got.text() != want {
		t.Errorf("got %s\nwant %s", got.text(), want)
	}
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(10, 10)...), 2*time.Second)) // the same bytes
	if c.Shown(c.Pinned(revision.V20260728, revision.Tools), odd{check}) != got {
		t.Error("the same bytes are shown as another entry")
	}
	c.UseViews([]View{nothing{}, odd{check}})
	c.UseViews([]View{odd{check}})
	if c.Shown(second, odd{check}) != got {
		t.Error("another configuration that uses the view has it made again")
	}
	if asked := len(*c.pinned[revision.V20260728][revision.Tools].shown.Load()); asked != 1 {
		t.Errorf("%d lists are ready, want that of the one view in use", asked)
	}
	c.Unpin(revision.V20260728, revision.Tools)
	if c.pinned[revision.V20260728][revision.Tools].shown.Load() != nil {
		t.Error("a list is ready of what is not offered any more")
	}
}

// What is shown is compressed too, and given up with the list.
func TestShownIsCompressed(t *testing.T) {
	c := compressing(t, 64<<20)
	c.UseViews([]View{odd{}})
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(0, 20)...), 0))
	if done := c.compress(t); done != 2 {
		t.Fatalf("%d lists are compressed, want the pinned one and that which is shown", done)
	}
	e := c.Pinned(revision.V20260728, revision.Tools)
	shown := c.Shown(e, odd{})
	whole, some := c.Encoded(e, encoded.Plain, start), c.Encoded(shown, encoded.Plain, start)
	if whole == nil || some == nil || whole == some {
		t.Fatalf("compressed: %p, shown %p", whole, some)
	}
	c.UseViews(nil)
	if c.compressed.Held(shown.Digest()) != nil || c.compressed.Held(e.Digest()) == nil {
		t.Error("what nobody is shown any more stays compressed")
	}
	c.UseViews([]View{odd{}})
	if done := c.compress(t); done != 1 {
		t.Errorf("%d lists are compressed for a new view, want 1", done)
	}
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(20, 20)...), time.Second))
	if c.compressed.Held(shown.Digest()) != nil {
		t.Error("what was shown of a replaced list stays compressed")
	}
}

// A list of a caller's own that took the place of another is never shown as that was,
// even if nothing but its bytes tells them apart.
func TestShownIsOfTheSameBytes(t *testing.T) {
	c := newCache(t, 64<<20)
	q := toolsOf(contextNumber(1))
	c.Put(c.list(q, listOf(t, toolsFrom(0, 10)...), 0))
	c.Shown(c.Get(q), odd{})
	c.Put(c.list(q, listOf(t, toolsFrom(10, 10)...), 0))
	for range 2 {
		if got, want := c.Shown(c.Get(q), odd{}).text(), onlyOdd(t, 10, 10); got != want {
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
	c.UseViews([]View{odd{}})
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
		if got := c.Shown(e, odd{}); got != nil {
			t.Errorf("%s is shown as %s", result, got.text())
		}
		own := *e
		own.Partition = contextNumber(1)
		c.Put(&own)
		if got := c.Shown(c.Get(toolsOf(contextNumber(1))), odd{}); got != nil {
			t.Errorf("%s of a caller's own is shown as %s", result, got.text())
		}
	}
}

// Lists change and views come and go while callers ask: each is shown what its view shows
// of the list that was found for it.
func TestShownWhileListsChange(t *testing.T) {
	c := compressing(t, 64<<20)
	views := []View{odd{}, nothing{}}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer close(done)
		for n := range 300 {
			c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(n%7, 10)...), time.Duration(n)*time.Second))
			c.UseViews(views[:n%3])
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
				if got := c.Shown(e, odd{}); !bytes.Equal(got.Body.Bytes, slices.Concat(pick(e, isOdd)...)) {
					t.Errorf("got %s", got.text())
					return
				}
				if got := c.Shown(e, nothing{}); got.Body.Items != 0 {
					t.Errorf("got %s", got.text())
					return
				}
				if shown := c.Shown(e, odd{}); c.Encoded(shown, encoded.Plain, start) != nil {
					t.Error("compressed, though nobody does that")
				}
			}
		})
	}
	running.Wait()
	c.UseViews(nil)
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
