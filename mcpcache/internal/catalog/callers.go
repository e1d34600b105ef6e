package catalog

import (
	"slices"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Caller tells callers apart who are shown other lists than everybody.
type Caller [16]byte

// callers has the lists that were joined for single callers lately, in two generations: the
// older one is forgotten when the younger has half of the bytes that there may be.
type callers struct {
	limit int64 // of a generation, in bytes

	mu             sync.Mutex
	younger, older map[place]*List
	bytes          int64 // of the younger ones
}

// place is that of one of a caller's lists.
type place struct {
	caller Caller
	at     revision.Revision
	kind   revision.Kind
}

// LastFor is [Joined.Last] for a caller who is shown other lists than everybody.
func (j *Joined) LastFor(caller Caller, r revision.Revision, k revision.Kind) *List {
	return j.callers.find(place{caller, r, k})
}

// JoinFor is [Joined.Join] for such a caller. What it is shown is private: others may be shown
// more, or less.
func (j *Joined) JoinFor(caller Caller, r revision.Revision, k revision.Kind, parts []*cache.Entry) *List {
	at := place{caller, r, k}
	l := j.callers.find(at)
	switch {
	case l == nil || !slices.EqualFunc(l.Parts, parts, alike):
		l = j.newList(r, k, parts, message.ScopePrivate)
	case slices.Equal(l.Parts, parts):
		return l
	default:
		l = l.of(parts)
	}
	j.callers.keep(at, l)
	return l
}

func (c *callers) find(at place) *List {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.younger[at]
	if l == nil {
		if l = c.older[at]; l != nil {
			c.add(at, l)
		}
	}
	return l
}

func (c *callers) keep(at place, l *List) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(at, l)
}

// add adds a list to the younger generation. The caller holds c.mu.
func (c *callers) add(at place, l *List) {
	if before := c.younger[at]; before != nil {
		c.bytes -= before.cost()
	}
	if c.younger == nil || c.bytes+l.cost() > c.limit {
		c.older, c.younger, c.bytes = c.younger, make(map[place]*List), 0
	}
	if l.cost() <= c.limit {
		c.younger[at], c.bytes = l, c.bytes+l.cost()
	}
}

// ofTarget is about what a name in a table costs besides its bytes, which are counted with
// the list.
const ofTarget = 128

// cost is about how many bytes the list has in memory.
func (l *List) cost() int64 { return int64(2*l.Entry.Size() + ofTarget*(len(l.targets)+len(l.Parts))) }
