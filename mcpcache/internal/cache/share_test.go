package cache

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// toolText returns a tool of some 800 bytes.
func toolText(n int) string {
	return fmt.Sprintf(`{"name":"tool_%d","description":"%s","inputSchema":{"type":"object"}}`,
		n, strings.Repeat("word ", 140))
}

// listOf returns a list of those tools, as an upstream would have sent it.
func listOf(t testing.TB, tools ...string) *message.Body {
	t.Helper()
	page, err := message.ParsePage([]byte(`{"ttlMs":60000,"tools":[`+strings.Join(tools, ",")+`],"x":"y"}`), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	return message.Single(revision.Tools, page)
}

// list is an entry with such a list.
func (c *Cache) list(q Question, body *message.Body, after time.Duration) *Entry {
	e := c.entry(q, "", after)
	e.Body = body
	return e
}

// toolsFrom returns the texts of n tools, from a first one on.
func toolsFrom(first, n int) []string {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = toolText(first + i)
	}
	return tools
}

// checkBooks compares what the bounded store has counted with what it holds.
func checkBooks(t testing.TB, c *Cache) {
	t.Helper()
	c.bounded.store.Wait()
	s := c.bounded.contents
	s.mu.Lock()
	defer s.mu.Unlock()
	var charged, held int64
	users := make(map[*content]int)
	c.bounded.store.IterValues(func(k *kept) bool {
		if k.left {
			t.Fatalf("%v has left and can be found", k.entry.question())
		}
		charged += k.cost
		held += k.entry.cost()
		if k.content != nil {
			users[k.content]++
		}
		return false
	})
	lists := make(map[*item]int)
	for key, content := range s.byKey {
		if content.refs != users[content] || content.refs == 0 || content.key != key {
			t.Fatalf("content has %d entries, but counts %d", users[content], content.refs)
		}
		held += int64(contentOverhead + len(content.before) + len(content.after) + itemReference*len(content.items))
		for _, i := range content.items {
			lists[i]++
		}
	}
	if len(s.byKey) != len(users) {
		t.Fatalf("%d contents are known, %d in use", len(s.byKey), len(users))
	}
	known := 0
	slabs := make(map[*slab]int)
	for _, i := range s.items {
		for ; i != nil; i = i.next {
			known++
			slabs[i.slab]++
			if i.refs != lists[i] || i.refs == 0 {
				t.Fatalf("item is in %d lists, but counts %d", lists[i], i.refs)
			}
		}
	}
	if known != len(lists) {
		t.Fatalf("%d items are known, %d in use", known, len(lists))
	}
	for b, items := range slabs {
		held += b.cost
		if b.items != items {
			t.Fatalf("slab has %d items, but counts %d", items, b.items)
		}
		if least := int64(slabOverhead + cap(b.bytes) + items*itemOverhead); b.cost < least {
			t.Fatalf("slab of %d bytes and %d items is charged %d, want at least %d", cap(b.bytes), items, b.cost, least)
		}
	}
	if charged+s.unpaid != held {
		t.Fatalf("%d bytes are charged to entries and %d to nobody, but %d are held", charged, s.unpaid, held)
	}
	if used := c.bounded.store.MaxCost() - c.bounded.store.RemainingCost(); used != charged {
		t.Fatalf("the store has counted %d bytes, its entries are charged %d", used, charged)
	}
	if max := c.bounded.store.MaxCost(); max != s.memory-s.unpaid {
		t.Fatalf("entries may be charged %d bytes, want %d-%d", max, s.memory, s.unpaid)
	}
}

func TestIdenticalListsShareTheirBytes(t *testing.T) {
	c := newCache(t, 64<<20)
	const partitions = 20
	var want []byte
	for n := range partitions {
		body := listOf(t, toolsFrom(0, 50)...) // bytes of its own
		want = body.Bytes
		if !c.Put(c.list(toolsOf(contextNumber(n)), body, 0)) {
			t.Fatal("list was refused")
		}
	}
	first, other := c.Get(toolsOf(contextNumber(0))), c.Get(toolsOf(contextNumber(1)))
	if first.content == nil || first.content != other.content || first.Whole() != nil {
		t.Fatal("two partitions hold the same list twice")
	}
	for _, e := range []*Entry{first, other} {
		if got := e.AppendTo(nil, encoded.Plain); !bytes.Equal(got, want) || e.Size() != len(want) {
			t.Errorf("got %d bytes (%d said), want %d:\n%s", len(got), e.Size(), len(want), got)
		}
		if e.Body.Digest != sha256.Sum256(want) || !e.Body.HasTTL || e.Body.Items != 50 {
			t.Errorf("body is described as %+v", e.Body)
		}
	}
	if other.Partition != contextNumber(1) {
		t.Error("the entry is somebody else's")
	}
	if got, most := c.used(), int64(len(want)+partitions*entryOverhead+50*(itemOverhead+itemReference+128)+contentOverhead); got > most {
		t.Errorf("uses %d bytes, want at most %d", got, most)
	}
	checkBooks(t, c)
}

func TestIdenticalItemsShareTheirBytes(t *testing.T) {
	c := newCache(t, 64<<20)
	for n := range 20 {
		body := listOf(t, toolsFrom(n, 50)...)
		if !c.Put(c.list(toolsOf(contextNumber(n)), body, 0)) {
			t.Fatal("list was refused")
		}
		if got := c.Get(toolsOf(contextNumber(n))).AppendTo(nil, encoded.Plain); !bytes.Equal(got, body.Bytes) {
			t.Fatalf("list %d came back as %s", n, got)
		}
	}
	if got := len(c.bounded.contents.items); got != 69 {
		t.Errorf("%d different items are kept, want 69", got)
	}
	if got := c.used(); got > 69*1000+20*2000 {
		t.Errorf("uses %d bytes", got)
	}
	checkBooks(t, c)
}

// Lists that are the same in their bytes may still differ in whether an answer
// carries a ttlMs.
func TestTTLIsNotShared(t *testing.T) {
	c := newCache(t, 1<<20)
	for n, given := range []bool{true, false, true, false} {
		body := listOf(t, toolsFrom(0, 5)...)
		body.HasTTL = given
		c.Put(c.list(toolsOf(contextNumber(n)), body, 0))
		if got := c.Get(toolsOf(contextNumber(n))).Body.HasTTL; got != given {
			t.Errorf("entry %d has a TTL: %v, want %v", n, got, given)
		}
	}
	checkBooks(t, c)
}

func TestWhatIsNotShared(t *testing.T) {
	c := newCache(t, 1<<20)
	tiny := make([]string, 100)
	for i := range tiny {
		tiny[i] = fmt.Sprintf(`{"name":"%d"}`, i)
	}
	small := listOf(t, `{"name":"long","description":"`+strings.Repeat("x", leastShared-53)+`"}`)
	if len(small.Bytes) != leastShared-1 {
		t.Fatalf("the small list has %d bytes", len(small.Bytes))
	}
	for name, body := range map[string]*message.Body{
		"small": small, "tiny items": listOf(t, tiny...), "no list": bodyOf("no list", leastShared),
	} {
		e := c.list(toolsOf(Anonymous), body, 0)
		c.Put(e)
		if got := c.Get(toolsOf(Anonymous)); got != e {
			t.Errorf("%s: got %v, want the entry itself", name, got)
		}
		checkBooks(t, c)
	}
}

// The entry that paid goes; what it paid for is still charged, until the last
// one that uses it has gone too.
func TestPayerGoes(t *testing.T) {
	c := newCache(t, 1<<20)
	first, second := toolsOf(contextNumber(1)), toolsOf(contextNumber(2))
	c.Put(c.list(first, listOf(t, toolsFrom(0, 50)...), 0))
	alone := c.used()
	c.Put(c.list(second, listOf(t, toolsFrom(0, 50)...), 0))
	both := c.used()
	c.Put(c.entry(first, "another list", time.Second)) // the payer's
	checkBooks(t, c)
	if got := c.used(); got < alone || got > both+100 {
		t.Errorf("uses %d bytes without the payer, want %d to %d", got, alone, both)
	}
	if c.bounded.contents.unpaid == 0 {
		t.Error("somebody still pays")
	}
	// The next who brings it takes the charge.
	c.Put(c.list(toolsOf(contextNumber(3)), listOf(t, toolsFrom(0, 50)...), 0))
	checkBooks(t, c)
	if got := c.bounded.contents.unpaid; got != 0 {
		t.Errorf("nobody pays for %d bytes", got)
	}
	c.Put(c.entry(second, "another list", time.Second))
	c.Put(c.entry(toolsOf(contextNumber(3)), "another list", time.Second))
	checkBooks(t, c)
	if got := c.used(); got > 3*(entryOverhead+100) || len(c.bounded.contents.items) != 0 {
		t.Errorf("uses %d bytes, %d items", got, len(c.bounded.contents.items))
	}
}

// A refresh that changes nothing, or one item, must not pile anything up but
// for a slab of which some items are still in use.
func TestReplacedListsPayForThemselves(t *testing.T) {
	c := newCache(t, 1<<20)
	q := toolsOf(Anonymous)
	c.Put(c.list(q, listOf(t, toolsFrom(0, 50)...), 0))
	want := c.used()
	// What is gone of the oldest slab, and what it takes that each item since
	// has a slab of its own.
	most := want + slabSize + 50*2*slabOverhead
	for n := range 200 {
		c.Put(c.list(q, listOf(t, toolsFrom(n/2, 50)...), time.Duration(n+1)))
		checkBooks(t, c)
		if got := c.used(); got < want-200 || got > most {
			t.Fatalf("after %d refreshes: uses %d bytes, want %d to %d", n, got, want, most)
		}
		if got := c.bounded.contents.unpaid; got != 0 {
			t.Fatalf("after %d refreshes: nobody pays for %d bytes", n, got)
		}
	}
}

// FuzzBooks puts lists that have lists and items in common into a bounded store that is
// too small for them.
func FuzzBooks(f *testing.F) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		steps := make([]byte, 3*150)
		for i := range steps {
			steps[i] = byte(r.Uint32())
		}
		f.Add(steps)
	}
	lists := make(map[[2]int]*message.Body) // made once: parsing takes most of the time
	f.Fuzz(func(t *testing.T, steps []byte) {
		const memory = 1 << 20
		c := newCache(t, memory)
		var after time.Duration
		for ; len(steps) >= 3; steps = steps[3:] {
			after++
			who, first, n := steps[0], int(steps[1]%64), int(steps[2]%48)
			switch steps[0] {
			case 255:
				c.Purge()
			case 254:
				c.SetMemory(memory - int64(steps[1])<<10)
			default:
				which := [2]int{first, n}
				if lists[which] == nil {
					lists[which] = listOf(t, toolsFrom(first, n)...)
				}
				c.Put(c.list(toolsOf(contextNumber(int(who%32))), lists[which], after))
			}
			if got := c.used(); got < 0 || got > memory {
				t.Fatalf("uses %d of %d bytes", got, memory)
			}
			checkBooks(t, c)
		}
	})
}

func TestConcurrentSharing(t *testing.T) {
	const memory = 1 << 20
	c := newCache(t, memory)
	lists := make([]*message.Body, 16)
	for n := range lists {
		lists[n] = listOf(t, toolsFrom(n*40, 60)...)
	}
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 2))
			for i := range 500 {
				q := toolsOf(contextNumber(r.IntN(200)))
				body := lists[r.IntN(len(lists))]
				c.Put(c.list(q, body, time.Duration(i*4+n)))
				if e := c.Get(q); e != nil && len(e.AppendTo(nil, encoded.Plain)) != e.Size() {
					t.Errorf("got %d bytes, want %d", len(e.AppendTo(nil, encoded.Plain)), e.Size())
				}
			}
		})
	}
	writers.Wait()
	checkBooks(t, c)
	if got := c.used(); got > memory {
		t.Errorf("uses %d of %d bytes", got, memory)
	}
	if kept := c.count(200); kept == 0 || kept == 200 {
		t.Errorf("%d of 200 lists are kept, want some", kept)
	}
}

// When all that is charged to nobody leaves no room for anything, the bounded store
// starts over rather than refuse everything.
func TestBoundedDoesNotGetStuck(t *testing.T) {
	const memory = (1 << 20) / (boundedShare + compressedShare) * eighths // a MiB of it for the bounded store
	c := newCache(t, memory)
	refused := 0
	for n := range 100 {
		tools := toolsFrom(n*100, 100) // 80 KB
		put := func(who, after int) {
			if !c.Put(c.list(toolsOf(contextNumber(who)), listOf(t, tools...), time.Duration(after))) {
				refused++
			}
		}
		put(2*n, 0)
		put(2*n+1, 1)
		// The payer asks for something else.
		c.Put(c.entry(toolsOf(contextNumber(2*n)), "another list", time.Second))
		if got := c.used(); got > memory {
			t.Fatalf("uses %d of %d bytes", got, memory)
		}
	}
	checkBooks(t, c)
	// About half are: Ristretto prefers what it has been asked for, which is nothing here.
	if refused > 150 {
		t.Errorf("%d of 200 lists were refused", refused)
	}
}
