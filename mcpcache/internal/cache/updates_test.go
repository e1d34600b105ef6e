package cache

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// read returns what was read of a resource just now.
func (c *Cache) read(uri string) *Entry {
	q := Question{
		Revision: revision.V20260728, Kind: revision.Reads, Partition: Public, Detail: []byte(strconv.Quote(uri)),
	}
	return c.entry(q, "text", 0)
}

func TestUpdateConcernsItsBranch(t *testing.T) {
	for updated, cases := range map[string]map[string]Freshness{
		"test://a/b": {
			"test://a/b": Outdated, "test://a/b/": Outdated, "test://a/b/c/d": Outdated, "test://a/b?c": Outdated,
			"test://a/b#c": Outdated, "test://a": Outdated, "test://a/": Outdated,
			"test://a/bc": Fresh, "test://a/c": Fresh, "test://b": Fresh, "other://a/b": Fresh, "": Fresh,
		},
		"test://a/": {"test://a": Outdated, "test://a/b": Outdated, "test://ab": Fresh},
		"":          {"": Outdated, "test://a": Fresh},
	} {
		for uri, want := range cases {
			c := newCache(t, 1<<20)
			e := c.read(uri)
			c.Update("other://x")
			if got := c.Freshness(e, start); got != Fresh {
				t.Errorf("an update elsewhere: %q has freshness %d", uri, got)
			}
			c.Update(updated)
			if got := c.Freshness(e, start); got != want {
				t.Errorf("an update of %q: %q has freshness %d, want %d", updated, uri, got, want)
			}
			if again := c.read(uri); c.Freshness(again, start) != Fresh {
				t.Errorf("after an update of %q: %q is not fresh", updated, uri)
			}
		}
	}
}

func TestUpdateIsAChangeOfReadsOnly(t *testing.T) {
	c := newCache(t, 1<<20)
	tools, before := c.entry(toolsOf(Public), "tools", 0), c.Mark(revision.Reads)
	c.Update("test://a")
	if c.Freshness(tools, start) != Fresh {
		t.Error("tools are outdated")
	}
	if after := c.Mark(revision.Reads); before.Since(after) || !after.Since(before) {
		t.Error("marks are in the wrong order")
	}
}

func TestUpdateOfWhatIsNoText(t *testing.T) {
	c := newCache(t, 1<<20)
	e := c.read("test://a")
	e.Detail = []byte(`"\`)
	if c.Freshness(e, start) != Fresh {
		t.Error("outdated without an update")
	}
	c.Update("test://b")
	if c.Freshness(e, start) != Outdated {
		t.Error("fresh, although nobody knows what it is")
	}
}

// Where there are too many updates to remember, all reads are outdated.
func TestUpdatesAreBounded(t *testing.T) {
	c := newCache(t, 1<<20)
	e := c.read("test://a")
	n := 0
	for c.Freshness(e, start) == Fresh {
		c.Update(fmt.Sprint("number", n)) // nothing is above these
		if n++; n > maxUpdates+1 {
			t.Fatal("more are remembered")
		}
	}
	if n != maxUpdates+1 {
		t.Errorf("%d updates outdated everything, want %d", n, maxUpdates+1)
	}
	if got := len(c.updates.under) + len(c.updates.above); got != 0 {
		t.Errorf("%d are remembered that concern nobody", got)
	}
	for length, want := range map[int]Freshness{maxUpdatedURI: Fresh, maxUpdatedURI + 1: Outdated} {
		e := c.read("test://a")
		c.Update(strings.Repeat("x", length))
		if got := c.Freshness(e, start); got != want {
			t.Errorf("after an update of %d bytes, freshness is %d, want %d", length, got, want)
		}
	}
}
