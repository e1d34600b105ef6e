package cache

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
)

func TestSlabsAreFull(t *testing.T) {
	for name, tt := range map[string]struct {
		tools []string
		slabs int
	}{
		"many items":       {toolsFrom(0, 50), 5}, // of some 760 bytes, ten to a slab
		"one slab":         {toolsFrom(0, 10), 1},
		"one item more":    {toolsFrom(0, 11), 2},
		"larger than that": {[]string{longTool("a", 3*slabSize), longTool("b", 100), longTool("c", slabSize)}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, 1<<20)
			body := listOf(t, tt.tools...)
			c.Put(c.list(toolsOf(Anonymous), body, 0))
			slabs := c.slabs()
			if len(slabs) != tt.slabs {
				t.Errorf("the list is in %d slabs, want %d", len(slabs), tt.slabs)
			}
			for b := range slabs {
				if n := cap(b.bytes); n > slabSize && b.items > 1 {
					t.Errorf("%d items share a slab of %d bytes", b.items, n)
				}
			}
			if got := c.Get(toolsOf(Anonymous)).AppendTo(nil, encoded.Plain); string(got) != string(body.Bytes) {
				t.Errorf("%d bytes came back, want %d:\n%s", len(got), len(body.Bytes), got)
			}
			checkBooks(t, c)
		})
	}
}

// One item that stays keeps the others of its slab, which are charged as long.
func TestSlabStaysWithItsLastItem(t *testing.T) {
	c := newCache(t, 1<<20)
	first, second := toolsOf(contextNumber(1)), toolsOf(contextNumber(2))
	c.Put(c.list(first, listOf(t, toolsFrom(0, 10)...), 0))
	alone := c.used()
	c.Put(c.list(second, listOf(t, toolsFrom(9, 2)...), 0)) // the last, and another
	c.Put(c.entry(first, "another list", time.Second))
	checkBooks(t, c)
	if got := c.used(); got < alone || len(c.slabs()) != 2 {
		t.Errorf("uses %d bytes in %d slabs, less than the %d of one", got, len(c.slabs()), alone)
	}
	c.Put(c.entry(second, "another list", time.Second))
	checkBooks(t, c)
	if got := c.used(); got > 2*(entryOverhead+100) {
		t.Errorf("uses %d bytes", got)
	}
}

// longTool returns a tool of that many bytes.
func longTool(name string, size int) string {
	head, tail := `{"name":"`+name+`","description":"`, `"}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

// slabs returns those that are in use.
func (c *Cache) slabs() map[*slab]bool {
	s := c.bounded.contents
	s.mu.Lock()
	defer s.mu.Unlock()
	slabs := make(map[*slab]bool)
	for _, i := range s.items {
		for ; i != nil; i = i.next {
			slabs[i.slab] = true
		}
	}
	return slabs
}
