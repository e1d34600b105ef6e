package catalog

import (
	"context"
	"crypto/sha256"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Caller tells callers apart who are shown other lists than everybody.
type Caller [16]byte

// CallerOf returns the caller whom that key tells apart.
func CallerOf(key []byte) (of Caller) {
	sum := sha256.Sum256(key)
	copy(of[:], sum[:])
	return of
}

// callers has the lists that were joined for single callers lately, in two generations: the
// older one is forgotten when the younger has half of the bytes that there may be.
type callers struct {
	limit int64 // of a generation, in bytes
	// hold has a list compressed until what it returns is called.
	hold func(*cache.Entry) (release func())

	mu             sync.Mutex
	younger, older map[place]kept
	bytes          int64 // of the younger ones
	// passing are lists that are too large to be kept, for as long as somebody uses them.
	passing map[place]weak.Pointer[List]

	// large is where lists are joined that may be large: each takes memory beyond the limit.
	large budget.Queue
}

// largeList is what a list may cost, in bytes, that is joined while others are.
const largeList = 64 << 10

// kept is a list, and what has it compressed no more.
type kept struct {
	*List

	release func()
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

// JoinFor is [Joined.Join] for such a caller, who may see what those views show. It is private:
// others may be shown more, or less. Large lists are joined one after another: JoinFor returns
// nil if ctx, or [freshness.Patience], ends before it is this one's turn.
func (j *Joined) JoinFor(ctx context.Context, caller Caller, v *Views, r revision.Revision, k revision.Kind, parts []*cache.Entry) *List {
	at := place{caller, r, k}
	if l := j.callers.findOf(at, parts); l != nil {
		return l
	}
	if j.mayCost(parts) > largeList {
		if !j.callers.large.Enter(ctx, freshness.Patience) {
			return nil
		}
		defer j.callers.large.Leave()
		if l := j.callers.findOf(at, parts); l != nil {
			return l
		}
	}
	l := j.newList(r, k, parts, message.ScopePrivate, v)
	j.callers.keep(at, l)
	return l
}

// findOf returns the list that was joined of those parts, or of parts that make the same of
// it, or nil.
func (c *callers) findOf(at place, parts []*cache.Entry) *List {
	l := c.find(at)
	switch {
	case l == nil || !slices.EqualFunc(l.Parts, parts, alike):
		return nil
	case l.passing || slices.Equal(l.Parts, parts):
		return l
	}
	l = l.of(parts)
	c.keep(at, l)
	return l
}

func (c *callers) find(at place) *List {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.younger[at].List
	if l == nil {
		if l = c.older[at].List; l != nil {
			c.add(at, l)
		}
	}
	if l == nil {
		l = c.passing[at].Value()
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
	if before, has := c.younger[at]; has {
		defer before.release() // not before the new one is held, which may have the same bytes
		delete(c.younger, at)
		c.bytes -= before.cost()
	}
	if before, has := c.older[at]; has {
		defer before.release()
		delete(c.older, at)
	}
	if c.younger == nil || c.bytes+l.cost() > c.limit {
		for _, oldest := range c.older {
			defer oldest.release()
		}
		c.older, c.younger, c.bytes = c.younger, make(map[place]kept), 0
	}
	if l.cost() <= c.limit {
		c.younger[at] = kept{l, c.hold(l.Entry)}
		c.bytes += l.cost()
		return
	}
	l.Parts, l.passing = bare(l.Parts), true
	if c.passing == nil {
		c.passing = make(map[place]weak.Pointer[List])
	}
	c.passing[at] = weak.Make(l)
	runtime.AddCleanup(l, c.forget, at)
}

// bare returns parts without what is in them: all that it takes to know others as the same. Whoever reads
// a large list must not keep them in memory, too.
func bare(parts []*cache.Entry) []*cache.Entry {
	known := make([]*cache.Entry, len(parts))
	for i, part := range parts {
		if part != nil {
			known[i] = &cache.Entry{Partition: part.Partition, Lifetime: part.Lifetime, Body: &message.Body{Digest: part.Body.Digest}}
		}
	}
	return known
}

// forget is called when nobody uses a list any more that is not kept.
func (c *callers) forget(at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.passing[at].Value() == nil {
		delete(c.passing, at)
	}
}

// ofTarget is about what a name in a table costs besides its bytes, which are counted with
// the list.
const ofTarget = 128

// mayCost is the most that a list which is joined of those parts may cost.
func (j *Joined) mayCost(parts []*cache.Entry) (bytes int64) {
	for number, part := range parts {
		if part != nil {
			bytes += int64(2*(part.Size()+part.Body.Items*len(j.servers[number].Prefix)) + ofTarget*(part.Body.Items+1))
		}
	}
	return bytes
}

// cost is about how many bytes the list has in memory.
func (l *List) cost() int64 { return int64(2*l.Entry.Size() + ofTarget*(len(l.targets)+len(l.Parts))) }
