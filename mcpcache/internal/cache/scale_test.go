package cache

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// full makes the scale tests as large as their goals are; otherwise they are a
// twentieth of that.
var full = flag.Bool("full", false, "run the scale tests in full size")

// scaled returns a twentieth of n, unless the tests are to be in full size.
func scaled(n int) int {
	if *full {
		return n
	}
	return n / 20
}

// heap returns the bytes in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools have held is gone now too
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// grows runs fill and checks that c then needs at most so many bytes more, and
// no more than it says by a fifth, give or take a megabyte for the store's own.
func grows(t *testing.T, c *Cache, most int64, fill func()) {
	t.Helper()
	before := heap()
	fill()
	grown := heap() - before
	said := c.used()
	t.Logf("%d bytes more, said to be %d", grown, said)
	if grown > most {
		t.Errorf("needs %d bytes, want at most %d", grown, most)
	}
	if grown > said*6/5+1<<20 {
		t.Errorf("needs %d bytes, but says %d", grown, said)
	}
	runtime.KeepAlive(c)
}

// fill puts a list into n partitions and returns how many were kept.
func (c *Cache) fill(t testing.TB, n int, list func(n int) *message.Body) (kept int) {
	for i := range n {
		if c.Put(c.list(toolsOf(contextNumber(i)), list(i), 0)) {
			kept++
		}
	}
	return kept
}

func TestMemoryOfIdenticalLists(t *testing.T) {
	c := newCache(t, 64<<20)
	n := scaled(10_000)
	body := listOf(t, toolsFrom(0, 50)...)
	grows(t, c, int64(n)*(20<<20)/10_000, func() {
		got := c.fill(t, n, func(int) *message.Body {
			other := *body
			other.Bytes = bytes.Clone(body.Bytes)
			return &other
		})
		if got != n {
			t.Errorf("%d of %d were kept", got, n)
		}
	})
}

func TestMemoryOfListsOfTheSameTools(t *testing.T) {
	c := compressing(t, 64<<20) // as it is by default
	tools := toolsFrom(0, 2000)
	n := scaled(10_000)
	// The tools themselves do not get fewer with the partitions.
	grows(t, c, 4<<20+int64(n)*(56<<20)/10_000, func() {
		got := c.fill(t, n, func(n int) *message.Body {
			r := rand.New(rand.NewPCG(uint64(n), 3))
			list := make([]string, 50)
			for i, which := range r.Perm(len(tools))[:len(list)] {
				list[i] = tools[which]
			}
			return listOf(t, list...)
		})
		if got != n {
			t.Errorf("%d of %d were kept", got, n)
		}
	})
}

func TestMemoryOfDifferentListsIsBounded(t *testing.T) {
	memory := int64(scaled(64 << 20))
	c := newCache(t, memory)
	n := scaled(10_000)
	grows(t, c, memory*6/5, func() {
		c.fill(t, n, func(n int) *message.Body { return listOf(t, toolsFrom(50*n, 50)...) })
	})
	if got := c.used(); got > memory || got < memory/4 {
		t.Errorf("uses %d of %d bytes", got, memory)
	}
}

func TestManyPartitions(t *testing.T) {
	c := compressing(t, 64<<20)
	n := scaled(100_000)
	body := listOf(t, toolsFrom(0, 50)...)
	grows(t, c, 64<<20*6/5, func() {
		if got := c.fill(t, n, func(int) *message.Body { return body }); got != n {
			t.Errorf("%d of %d were kept", got, n)
		}
	})
	for i := range n {
		if c.Get(toolsOf(contextNumber(i))) == nil {
			t.Fatalf("partition %d is not there", i)
		}
	}
}

func TestManyTools(t *testing.T) {
	c := newCache(t, 128<<20)
	n := scaled(10_000)
	body := listOf(t, toolsFrom(0, n)...)
	c.Put(c.list(toolsOf(Anonymous), body, 0))
	e := c.Get(toolsOf(Anonymous))
	if e == nil || e.Body.Items != n || e.Size() != len(body.Bytes) {
		t.Fatalf("got %+v", e)
	}
	if got := e.AppendTo(nil, encoded.Plain); string(got) != string(body.Bytes) {
		t.Errorf("%d bytes came back, want %d", len(got), len(body.Bytes))
	}
	checkBooks(t, c)
}
