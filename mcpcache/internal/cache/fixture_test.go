package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// start is when the tests begin.
var start = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

// newCache returns a cache that is closed with the test.
func newCache(t testing.TB, memory int64) *Cache {
	t.Helper()
	c, err := New(memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// bodyOf returns a body of so many bytes that differs with its text.
func bodyOf(text string, size int) *message.Body {
	b := &message.Body{Bytes: make([]byte, size)}
	copy(b.Bytes, text)
	copy(b.Digest[:], text)
	return b
}

// entry returns an answer to the question, fetched so long after the start,
// that is fresh for a minute.
func (c *Cache) entry(q Question, text string, after time.Duration) *Entry {
	return &Entry{
		Kind: q.Kind, Revision: q.Revision, Partition: q.Partition, Variant: q.Variant, Detail: q.Detail, view: q.view,
		Body: bodyOf(text, len(text)), Fetched: start.Add(after), Lifetime: time.Minute, Mark: c.Mark(q.Kind),
	}
}

// ofCost makes e count exactly so many bytes.
func (e *Entry) ofCost(cost int64) *Entry {
	e.Body.Bytes = make([]byte, cost-int64(entryOverhead)-2*int64(len(e.Detail)))
	return e
}

// contextNumber returns one of many authorization contexts.
func contextNumber(n int) Partition {
	var hash [16]byte
	copy(hash[:], fmt.Sprintf("%015d", n))
	return ContextOf(hash, Asked{})
}

// toolsOf is the question for the tools of one context.
func toolsOf(p Partition) Question {
	return Question{Revision: revision.V20260728, Kind: revision.Tools, Partition: p}
}

// count returns in how many of the first n contexts tools are kept.
func (c *Cache) count(n int) (kept int) {
	for i := range n {
		if c.Get(toolsOf(contextNumber(i))) != nil {
			kept++
		}
	}
	return kept
}

// used returns how many bytes are kept besides the pinned snapshots; 0 after
// Close.
func (c *Cache) used() int64 {
	c.bounded.closing.RLock()
	defer c.bounded.closing.RUnlock()
	if c.bounded.closed {
		return 0
	}
	return c.bounded.memory - c.bounded.store.RemainingCost() + c.compressed.Bytes()
}
