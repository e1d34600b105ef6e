package cache

import (
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// largeBody is the size in bytes above which a body that is being written counts.
// Smaller ones take no more than a connection does anyway.
const largeBody = 64 << 10

// reading has the large bodies that are being written to clients. One that has left the
// cache stays in memory until the slowest client has read it. All together, other than
// those that are pinned, may take as much memory as the bounded store.
type reading struct {
	mu     sync.Mutex
	limit  int64
	bodies map[*message.Body]readBody
}

type readBody struct {
	entry   *Entry
	readers int
}

// Hold is called before e is written to a client. It reports false if there is no
// room for another body that is being read: e must not be written then. Otherwise
// Release has to be called at the end.
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
	var size int64
	if !c.isPinned(e) {
		size = int64(e.Size())
	}
	for _, b := range r.bodies {
		if !c.isPinned(b.entry) {
			size += int64(b.entry.Size())
		}
	}
	if size > r.limit {
		return false
	}
	if r.bodies == nil {
		r.bodies = make(map[*message.Body]readBody)
	}
	r.bodies[e.Body] = readBody{entry: e, readers: 1}
	return true
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
		return
	}
	r.bodies[e.Body] = b
}

// isPinned reports whether e has the body of the feed's snapshot.
func (c *Cache) isPinned(e *Entry) bool {
	pinned := c.Pinned(e.Revision, e.Kind)
	return pinned != nil && pinned.Body == e.Body
}

func (r *reading) setLimit(limit int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
}
