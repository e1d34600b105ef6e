package cache

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestPutIsThereAtOnce(t *testing.T) {
	c := newCache(t, 64<<20)
	for n := range 2000 {
		e := c.entry(toolsOf(contextNumber(n)), "list", 0)
		if !c.Put(e) {
			t.Fatalf("entry %d was refused", n)
		}
		if got := c.Get(toolsOf(contextNumber(n))); got != e {
			t.Fatalf("entry %d: got %p, want %p", n, got, e)
		}
	}
}

func TestPutKeepsTheNewest(t *testing.T) {
	q := toolsOf(Anonymous)
	for name, tt := range map[string]struct {
		second time.Duration // when the second entry was fetched, after the first
		bump   bool          // before the second entry's request was sent
		swap   bool          // the second is put first
		want   string
	}{
		"later":                        {second: time.Second, want: "b"},
		"later, but it arrives first":  {second: time.Second, swap: true, want: "b"},
		"at the same time":             {want: "b"},
		"newer epoch":                  {second: time.Second, bump: true, want: "b"},
		"newer epoch, arrives first":   {second: time.Second, bump: true, swap: true, want: "b"},
		"newer epoch, fetched earlier": {second: -time.Second, bump: true, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, 1<<20)
			a := c.entry(q, "a", 0)
			if tt.bump {
				c.Bump(revision.SetOf(revision.Tools))
			}
			b := c.entry(q, "b", tt.second)
			order := []*Entry{a, b}
			if tt.swap {
				order = []*Entry{b, a}
			}
			first, second := c.Put(order[0]), c.Put(order[1])
			if !first || second == tt.swap {
				t.Errorf("kept %v, then %v", first, second)
			}
			if got := c.Get(q); got == nil || string(got.Body.Bytes) != tt.want {
				t.Errorf("got %v, want %s", got, tt.want)
			}
		})
	}
}

func TestOneEntryMayTakeItsShare(t *testing.T) {
	const memory = 1 << 20
	const largest = memory / eighths * (boundedShare + compressedShare) / largestShare
	c := newCache(t, memory)
	for cost, want := range map[int64]bool{largest: true, largest + 1: false} {
		q := toolsOf(contextNumber(int(cost)))
		e := c.entry(q, "", 0).ofCost(cost)
		if got := c.Put(e); got != want {
			t.Errorf("cost %d: kept %v, want %v", cost, got, want)
		}
		if got := c.Get(q) == e; got != want {
			t.Errorf("cost %d: found %v, want %v", cost, got, want)
		}
	}
}

// What was replaced must not be found although its replacement is not kept.
func TestRefusedEntryTakesTheOldOneWithIt(t *testing.T) {
	const memory = 1 << 20
	c := newCache(t, memory)
	q := toolsOf(Anonymous)
	if !c.Put(c.entry(q, "small", 0)) {
		t.Fatal("entry was refused")
	}
	if c.Put(c.entry(q, "", time.Second).ofCost(memory)) {
		t.Fatal("entry above its share was kept")
	}
	if got := c.Get(q); got != nil {
		t.Errorf("found the entry from before: %s", got.Body.Bytes)
	}
}

func TestMemoryBoundsEntriesThatGrow(t *testing.T) {
	const memory, entries = 1 << 20, 64
	c := newCache(t, memory)
	for round, cost := range []int64{1 << 10, memory / eighths * (boundedShare + compressedShare) / largestShare} {
		for n := range entries {
			c.Put(c.entry(toolsOf(contextNumber(n)), "", time.Duration(round)*time.Second).ofCost(cost))
			if got := c.used(); got > memory {
				t.Fatalf("uses %d of %d bytes after entry %d of cost %d", got, memory, n, cost)
			}
		}
	}
	if got := c.used(); got < memory/4 {
		t.Errorf("uses %d bytes only", got)
	}
	if kept := c.count(entries); kept == 0 || kept == entries {
		t.Errorf("%d of %d entries are kept, want some", kept, entries)
	}
}

func TestSetMemory(t *testing.T) {
	const memory = 1 << 20
	c := newCache(t, memory)
	fill := func() {
		for n := range 32 {
			c.Put(c.entry(toolsOf(contextNumber(n)), "", 0).ofCost(memory / 128))
		}
	}
	fill()
	full := c.used()
	if want := int64(32 * memory / 128); full != want {
		t.Fatalf("uses %d bytes, want %d", full, want)
	}
	c.SetMemory(2 * memory)
	if got := c.used(); got != full {
		t.Errorf("uses %d bytes with more memory, want %d", got, full)
	}
	c.SetMemory(memory / 4)
	if got := c.used(); got > memory/4 {
		t.Errorf("uses %d bytes of %d", got, memory/4)
	}
	fill()
	if got := c.used(); got > memory/4 || got == 0 {
		t.Errorf("uses %d bytes of %d when filled again", got, memory/4)
	}
	c.Purge()
	if got := c.used(); got != 0 {
		t.Errorf("uses %d bytes after a purge", got)
	}
}

func TestPurgeKeepsPinned(t *testing.T) {
	c := newCache(t, 1<<20)
	q := toolsOf(Anonymous)
	pinned := c.entry(q, "pinned", 0)
	c.Pin(pinned)
	c.Put(c.entry(q, "kept", 0))
	c.Purge()
	if got := c.Get(q); got != nil {
		t.Errorf("found %s", got.Body.Bytes)
	}
	if got := c.Pinned(q.Revision, q.Kind); got != pinned {
		t.Errorf("pinned is %v", got)
	}
	if e := c.entry(q, "again", 0); !c.Put(e) || c.Get(q) != e {
		t.Error("nothing is kept after a purge")
	}
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, 1<<20)
		q := toolsOf(Anonymous)
		c.Put(c.entry(q, "list", 0))
		time.Sleep(retention)
		if c.Get(q) == nil {
			t.Error("entry is gone before its retention is over")
		}
		time.Sleep(time.Second)
		if c.Get(q) != nil {
			t.Error("entry is there after its retention")
		}
		c.Close() // its goroutines have to end in the bubble
	})
}

func TestCloseWhileInUse(t *testing.T) {
	for range 20 {
		c := newCache(t, 1<<20)
		q := toolsOf(Anonymous)
		var users sync.WaitGroup
		begun := make(chan struct{}, 4)
		for n := range 4 {
			users.Go(func() {
				for i := range 200 {
					c.Put(c.entry(toolsOf(contextNumber(i*4+n)), "list", 0))
					c.Get(q)
					c.used()
					c.SetMemory(1<<20 + int64(i))
					if i == 20 {
						begun <- struct{}{}
					}
				}
			})
		}
		<-begun
		c.Close()
		if c.Put(c.entry(q, "late", 0)) {
			t.Error("kept an entry after close")
		}
		users.Wait()
		c.Purge()
		c.Close()
		if got := c.Get(q); got != nil {
			t.Errorf("found %v after close", got)
		}
	}
}

// Concurrent writers of the same keys must leave the newest answer, never an
// older one.
func TestConcurrentPuts(t *testing.T) {
	c := newCache(t, 16<<20)
	const keys, writes = 50, 100
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			for i := range writes {
				for k := range keys {
					c.Put(c.entry(toolsOf(contextNumber(k)), fmt.Sprint(n), time.Duration(i*4+n)))
				}
			}
		})
	}
	writers.Wait()
	for k := range keys {
		e := c.Get(toolsOf(contextNumber(k)))
		if want := time.Duration(4*writes - 1); e == nil || e.Fetched.Sub(start) != want {
			t.Fatalf("key %d: got %v, want the one fetched at %d", k, e, want)
		}
	}
}
