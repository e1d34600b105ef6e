package cache

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// largeBody is the size in bytes above which a body that is being written counts.
// Smaller ones take no more than a connection does anyway.
const largeBody = 64 << 10

// reading has the large bodies that are being written to clients. One that has left the
// cache stays in memory until the slowest client has read it. All together, other than
// those that are pinned, may take as much memory as the bounded store. One that is larger
// than that is written while there is no other.
type reading struct {
	mu     sync.Mutex
	limit  int64
	bodies map[*message.Body]readBody
	freed  chan struct{} // closed when a body is not read any more; nil: nobody waits
	line   budget.Queue  // of those who wait for room
}

type readBody struct {
	entry   *Entry
	readers int
	alone   bool // it has more bytes than there is room for
}

// Hold is called before e is written to a client. It reports false if there is no
// room for another body that is being read: e must not be written then, see
// [Cache.HoldSoon]. Otherwise Release has to be called at the end.
func (c *Cache) Hold(e *Entry) bool {
	if e.Size() <= largeBody {
		return true
	}
	r := &c.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, ok := r.bodies[e.Body]; ok {
		b.readers++
		r.bodies[e.Body] = b
		return true
	}
	size := c.Counts(e)
	if !c.fits(size) {
		return false
	}
	if r.bodies == nil {
		r.bodies = make(map[*message.Body]readBody)
	}
	r.bodies[e.Body] = readBody{entry: e, readers: 1, alone: size > r.limit}
	return true
}

// Counts returns how many bytes count of e while it is written to clients.
func (c *Cache) Counts(e *Entry) int64 {
	if e.Size() <= largeBody || c.isPinned(e) {
		return 0
	}
	return int64(e.Size())
}

// fits reports whether there is room for so many bytes more. The caller holds c.reading.mu.
func (c *Cache) fits(size int64) bool {
	var others int64
	for _, b := range c.reading.bodies {
		counts := c.Counts(b.entry)
		if b.alone { // the body takes all the room, but none of the pinned lists'
			counts = min(counts, c.reading.limit)
		}
		others += counts
	}
	return others == 0 || others+size <= c.reading.limit
}

// HoldSoon waits until there is room for that many bytes, and then holds the entry that next
// returns. Callers use it after Hold has found no room. They wait one after another, each at most
// as long as patience. The entry may have changed meanwhile: next returns it as it is now, or nil
// to give up. HoldSoon reports whether the entry is held.
func (c *Cache) HoldSoon(ctx context.Context, patience time.Duration, room int64, next func() *Entry) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !c.reading.line.Enter(ctx, patience) {
		return false
	}
	defer c.reading.line.Leave()
	for c.awaitRoom(ctx, room) {
		e := next()
		if e == nil || c.Hold(e) {
			return e != nil
		}
		room = c.Counts(e) // somebody else was faster
	}
	return false
}

// awaitRoom waits until there is room for another body of that many bytes. It reports
// whether that was before the end of ctx.
func (c *Cache) awaitRoom(ctx context.Context, size int64) bool {
	r := &c.reading
	for {
		r.mu.Lock()
		if c.fits(size) {
			r.mu.Unlock()
			return true
		}
		if r.freed == nil {
			r.freed = make(chan struct{})
		}
		freed := r.freed
		r.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// Release is called when e has been written, after Hold.
func (c *Cache) Release(e *Entry) {
	if e.Size() <= largeBody {
		return
	}
	r := &c.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.bodies[e.Body]
	if b.readers--; b.readers == 0 {
		delete(r.bodies, e.Body)
		if r.freed != nil {
			close(r.freed)
			r.freed = nil
		}
		return
	}
	r.bodies[e.Body] = b
}

// isPinned reports whether e has the body of the feed's snapshot, or of that as it is ready
// for a view.
func (c *Cache) isPinned(e *Entry) bool {
	if e.view != (viewHash{}) {
		ready := c.pinned[e.Revision][e.Kind].findFiltered(e.view, e.of)
		return ready != nil && ready.entry != nil && ready.entry.Body == e.Body
	}
	pinned := c.Pinned(e.Revision, e.Kind)
	return pinned != nil && pinned.Body == e.Body
}

func (r *reading) setLimit(limit int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
}
