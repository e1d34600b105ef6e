package cache

import (
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
)

// TestPages has parts of a list, as it came, as a view shows it and as it is kept in parts:
// each is made once, compressed as all that is kept, and made anew of another list.
func TestPages(t *testing.T) {
	c := compressing(t, 64<<20)
	list := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 100)...), 0)
	c.Pin(list)
	if !c.Put(c.list(toolsOf(contextNumber(1)), listOf(t, toolsFrom(0, 100)...), 0)) {
		t.Fatal("no room for a list")
	}
	all := toolsFrom(0, 100)
	for name, tt := range map[string]struct {
		list *Entry
		want []string
	}{
		"as it came": {list, all}, "in parts": {c.Get(toolsOf(contextNumber(1))), all},
		"as a view shows it": {c.VisibleTo(t.Context(), list, odd{}, start), oddOf(all)},
	} {
		pages := make(map[string]*Entry)
		for _, next := range []string{"", `"n"`, `"m"`} {
			want := string(listOf(t, tt.want[10:30]...).Bytes)
			var cursor []byte
			if next != "" {
				cursor = []byte(next)
				want = strings.Replace(want, "]", `],"nextCursor":`+next, 1)
			}
			page := c.Page(tt.list, 10, 20, cursor, true)
			if got := page.text(); got != want {
				t.Errorf("%s: the page is %s, want %s", name, got, want)
			}
			kept := c.Page(tt.list, 10, 20, cursor, true)
			if kept.content == nil || c.Page(tt.list, 10, 20, cursor, true).content != kept.content || kept.text() != want {
				t.Errorf("%s: the page is not kept", name)
			}
			pages[next] = kept
		}
		if other := c.Page(tt.list, 11, 20, nil, true); other.text() == pages[""].text() {
			t.Errorf("%s: another page is the same", name)
		}
		c.Encoded(pages[""], encoded.Plain, start)
		if c.compress(t); c.Encoded(pages[""], encoded.Plain, start) == nil {
			t.Errorf("%s: the page is not compressed", name)
		}
	}
	changed := c.list(toolsOf(Public), listOf(t, toolsFrom(1, 100)...), 0)
	if got, want := c.Page(changed, 10, 20, nil, true).text(), string(listOf(t, toolsFrom(11, 20)...).Bytes); got != want {
		t.Errorf("of another list the page is %s, want %s", got, want)
	}
	if c.Get(toolsOf(Public)) != nil {
		t.Error("a page is taken for the list")
	}
}
