package cache

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func BenchmarkPinned(b *testing.B) {
	c := newCache(b, 1<<20)
	e := c.entry(toolsOf(Public), "list", 0)
	c.Pin(e)
	b.ReportAllocs()
	for b.Loop() {
		got := c.Pinned(revision.V20260728, revision.Tools)
		if got != e || c.Freshness(got, start) != Fresh {
			b.Fatal("not found")
		}
	}
}

func BenchmarkTierGet(b *testing.B) {
	c := newCache(b, 64<<20)
	for n := range 1000 {
		c.Put(c.entry(toolsOf(contextNumber(n)), "list", 0))
	}
	q := toolsOf(contextNumber(500))
	b.ReportAllocs()
	for b.Loop() {
		if c.Get(q) == nil {
			b.Fatal("not found")
		}
	}
}

func BenchmarkTierPut(b *testing.B) {
	c := newCache(b, 64<<20)
	e := c.entry(toolsOf(Anonymous), "list", 0)
	b.ReportAllocs()
	for b.Loop() {
		if !c.Put(e) {
			b.Fatal("refused")
		}
	}
}

// Lists of 50 tools that no other caller has, in a bounded store that is full.
func BenchmarkTierPutList(b *testing.B) {
	c := newCache(b, 8<<20)
	entries := make([]*Entry, 400)
	for n := range entries {
		entries[n] = c.list(toolsOf(contextNumber(n)), listOf(b, toolsFrom(50*n, 50)...), 0)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		c.Put(entries[n%len(entries)])
	}
}
