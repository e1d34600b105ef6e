// Package cache keeps answers. The feed's snapshots are pinned by atomic pointers. A bounded store
// has everything else: answers of one authorization context, pages, and single resources. If
// several answers in the store have a list or an item in common, the store keeps it once. The
// package also keeps compressed answers, for clients that ask for them.
//
// Every kind has an epoch, which a change notice bumps. An answer is outdated if its request was
// sent in an older epoch, whenever the answer arrived. An outdated answer is never fresh. The
// caches of several processes may publish changes to each other: see change.go.
//
// The package knows nothing of requests, of Caddy and of how answers are fetched.
package cache

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded/splice"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Freshness says what may be done with an entry.
type Freshness uint8

const (
	// Outdated: a change has been announced since its request was sent.
	Outdated Freshness = iota
	// Expired: its lifetime is over.
	Expired
	// Fresh: it may be given to whoever its partition admits.
	Fresh
)

// Cache holds the answers of one upstream. All methods may be called from
// several goroutines at once.
type Cache struct {
	Changes

	pinned  [revision.Count][revision.NumKinds]pin
	bounded *bounded
	// compressed has the compressed bytes of entries.
	compressed *encoded.Set

	pinning sync.Mutex // guards writing to pinned

	// work is the part of the memory for work in progress.
	work    *budget.Budget
	reading reading
	// readyLimit is how many bytes the lists may take that are ready for views.
	readyLimit atomic.Int64

	// filtering is where large lists are made for views. passing are those that could not be kept,
	// while somebody uses them: weak pointers to entries by filteredKey.
	filtering budget.Queue
	passing   sync.Map

	// asleep reports whether the upstream sleeps; nil: it never does.
	asleep atomic.Pointer[func() bool]

	sharing sync.Mutex // guards memory and precompress
	memory  int64
	// precompress says that a part of the memory is for compressed bytes.
	precompress bool

	mu    sync.Mutex // guards onPin
	onPin []*pinWatch
}

// pin has the feed's snapshot of a kind and revision, and its compressed bytes, nil if
// it is small.
type pin struct {
	entry      atomic.Pointer[Entry]
	compressed atomic.Pointer[encoded.Body]
	// filtered is the snapshot as the callers of some views are shown it; for a moment also
	// the one that it replaces. nil if there are none.
	filtered atomic.Pointer[[]*filteredList]
	// ready are those of the snapshot alone, whose compressed bytes are held. Guarded by
	// Cache.pinning.
	ready []*filteredList

	// change is when the entry's bytes took the place of others, nil if it is not known
	// what the upstream had before. restored says that the entry is from before a
	// restart. Both are guarded by Cache.pinning.
	change   *change
	restored bool

	// rest is until when the entry's bytes are not compressed, if they change
	// all the time. Guarded by Cache.pinning.
	rest encoded.Rest
}

// change is that of the bytes between two consecutive fetches.
type change struct {
	before, after Mark
}

type pinWatch struct {
	pinned func(r revision.Revision, k revision.Kind, same bool)
}

// New returns a cache that takes at most memory bytes besides the pinned
// snapshots, see SetMemory.
func New(memory int64) (*Cache, error) {
	compressed := encoded.NewSet()
	b, err := newBounded(memory, compressed)
	if err != nil {
		return nil, fmt.Errorf("building the cache: %w", err)
	}
	c := &Cache{
		bounded: b, compressed: compressed, memory: memory, work: budget.New(0),
		reading: reading{line: budget.NewQueue()}, filtering: budget.NewQueue(),
	}
	c.begin()
	c.share()
	return c, nil
}

// Pin makes e the feed's snapshot of its kind and revision, unless a newer one
// is pinned. A snapshot is pinned even if it is outdated already: it is still
// the last good one.
func (c *Cache) Pin(e *Entry) bool {
	old, pinned := c.pin(e, false, func(old *Entry) bool { return old == nil || !old.newerThan(e) })
	if !pinned {
		return false
	}
	c.mu.Lock()
	watchers := c.onPin
	c.mu.Unlock()
	for _, w := range watchers {
		w.pinned(e.Revision, e.Kind, old != nil && old.Body.Digest == e.Body.Digest)
	}
	return true
}

// OnPin calls pinned after every [Cache.Pin] that returns true, until the returned function
// is called; same says that the bytes are those of the snapshot before. It must return at
// once.
func (c *Cache) OnPin(pinned func(r revision.Revision, k revision.Kind, same bool)) (stop func()) {
	w := &pinWatch{pinned}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onPin = append(slices.Clip(c.onPin), w)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.onPin = slices.DeleteFunc(slices.Clone(c.onPin), func(other *pinWatch) bool { return other == w })
	}
}

// ChangedWith reports whether e is pinned and has changed with the notice at m: the
// first fetch after m brought its bytes, and the last one before m brought others.
func (c *Cache) ChangedWith(e *Entry, m Mark) bool {
	c.pinning.Lock()
	defer c.pinning.Unlock()
	p := &c.pinned[e.Revision][e.Kind]
	return p.entry.Load() == e && p.change != nil && p.change.after.Since(m) && !p.change.before.Since(m)
}

// Restore pins a snapshot from before a restart, unless the feed has brought
// one already.
func (c *Cache) Restore(e *Entry) {
	c.pin(e, true, func(old *Entry) bool { return old == nil })
}

// pin pins e if the entry that is pinned, which may be nil, may be replaced. Bytes that
// are the same as before stay compressed. It returns what was pinned before.
func (c *Cache) pin(e *Entry, restored bool, mayReplace func(*Entry) bool) (old *Entry, pinned bool) {
	c.pinning.Lock()
	defer c.pinning.Unlock()
	p := &c.pinned[e.Revision][e.Kind]
	old = p.entry.Load()
	if !mayReplace(old) {
		return old, false
	}
	switch {
	case old == nil || p.restored:
		p.change = nil
	case old.Body.Digest != e.Body.Digest:
		p.change = &change{before: old.Mark, after: e.Mark}
	}
	p.restored = restored
	body, made := c.compressed.Hold(e), c.filterPinned(p, e)
	p.publish(slices.Concat(made, p.ready)) // nobody is to wait for what is shown of either
	p.entry.Store(e)
	c.compressed.Release(p.compressed.Swap(body))
	c.replaceFiltered(p, made)
	now := time.Now()
	restless := old != nil && old.Body.Digest != e.Body.Digest && p.rest.Changed(now)
	c.compressPinned(p, restless, now)
	return old, true
}

// compressPinned has what is pinned compressed; if it changes all the time, once it has not
// changed for a while. The caller holds c.pinning.
func (c *Cache) compressPinned(p *pin, restless bool, now time.Time) {
	for body, e := range p.eachCompressible() {
		if restless {
			c.compressed.Postpone(body, now)
		} else {
			c.compressed.Want(body, e, encoded.Plain, now.Unix())
		}
	}
	if restless {
		p.rest.Await(func() {
			c.pinning.Lock()
			defer c.pinning.Unlock()
			c.compressPinned(p, false, time.Now())
		})
	}
}

// Unpin forgets the feed's snapshot of a kind: the upstream does not offer it.
func (c *Cache) Unpin(r revision.Revision, k revision.Kind) {
	c.pinning.Lock()
	defer c.pinning.Unlock()
	p := &c.pinned[r][k]
	p.entry.Store(nil)
	p.change = nil
	c.compressed.Release(p.compressed.Swap(nil))
	c.replaceFiltered(p, nil)
}

// Pinned returns the feed's snapshot, or nil.
func (c *Cache) Pinned(r revision.Revision, k revision.Kind) *Entry {
	return c.pinned[r][k].entry.Load()
}

// Put keeps an answer in the bounded store. It reports whether the answer can be found
// now: there may be no room for it.
func (c *Cache) Put(e *Entry) bool { return c.bounded.put(e) }

// Get returns the answer that was kept to exactly this question, or nil.
func (c *Cache) Get(q Question) *Entry { return c.bounded.get(q) }

// Forget removes the answer to a question, because a newer one that cannot be kept has
// taken its place.
func (c *Cache) Forget(q Question) { c.bounded.forget(q) }

// Freshness says what may be done with e at the time now.
func (c *Cache) Freshness(e *Entry, now time.Time) Freshness {
	if c.epochs[e.Kind].Load() != e.Mark.epoch || c.together.overdue(now) {
		return Outdated
	}
	if e.Detail != nil && c.pages[e.Kind].Load() != e.Mark.pages {
		return Outdated
	}
	if e.Kind == revision.Reads && c.updates.concern(e.Detail, e.Mark.updates) {
		return Outdated
	}
	if e.Left(now) <= 0 && !c.sleeps(e) {
		return Expired
	}
	return Fresh
}

// Left returns for how long e is still fresh, as an answer with it says: at most 0 if it
// is not, whatever is left of its lifetime. While the upstream sleeps, what it has said
// is as good as if it had just said it.
func (c *Cache) Left(e *Entry, now time.Time) time.Duration {
	left := e.Left(now)
	switch fresh := c.Freshness(e, now) == Fresh; {
	case !fresh:
		return min(left, 0)
	case left <= 0:
		return e.Lifetime
	}
	return left
}

// SetAsleep sets what reports whether the upstream sleeps: nothing happens there, so lists stay
// as they are. It is called for many requests. nil says that the upstream never sleeps.
func (c *Cache) SetAsleep(asleep func() bool) {
	if asleep == nil {
		c.asleep.Store(nil)
		return
	}
	c.asleep.Store(&asleep)
}

// sleeps reports whether the upstream of e sleeps, so that e does not expire. Contents of resources
// do: they are of things outside.
func (c *Cache) sleeps(e *Entry) bool {
	asleep := c.asleep.Load()
	return asleep != nil && e.Kind != revision.Reads && (*asleep)()
}

// Encoded returns e compressed in that framing, ready for the prefix of an answer to be
// spliced on. If it is not compressed yet, it returns nil and has that done: see
// Wanted.
func (c *Cache) Encoded(e *Entry, framing encoded.Framing, now time.Time) *splice.Encoded {
	body := c.compressedOf(e)
	if body == nil {
		return nil
	}
	return c.compressed.Find(body, e, framing, now.Unix())
}

// HoldCompressed has e, which is kept elsewhere, compressed once a client asks for that, until
// what it returns is called.
func (c *Cache) HoldCompressed(e *Entry) (release func()) {
	body := c.compressed.Hold(e)
	return func() { c.compressed.Release(body) }
}

// compressedOf returns the compressed bytes of e, or nil if it is small or not kept.
func (c *Cache) compressedOf(e *Entry) *encoded.Body {
	if e.content != nil {
		return e.content.compressed
	}
	if b := c.pinned[e.Revision][e.Kind].compressed.Load(); b != nil && b.Is(e.Body.Digest) {
		return b
	}
	if e.Size() < encoded.LeastSize {
		return nil
	}
	return c.compressed.Held(e.Body.Digest)
}

// Wanted delivers the bodies that are to be compressed. Nothing is compressed
// unless somebody receives them.
func (c *Cache) Wanted() <-chan encoded.Wanted { return c.compressed.Wanted() }

// Purge forgets everything but the pinned snapshots.
func (c *Cache) Purge() { c.bounded.purge() }

// Close ends the bounded store's goroutines. Afterwards nothing is kept and nothing found.
func (c *Cache) Close() {
	c.pinning.Lock()
	for r := range c.pinned {
		for k := range c.pinned[r] {
			c.pinned[r][k].rest.Stop()
			c.replaceFiltered(&c.pinned[r][k], nil)
		}
	}
	c.pinning.Unlock()
	c.bounded.close()
}
