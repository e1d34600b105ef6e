package telemetry

import (
	"sync"
	"sync/atomic"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// hitCounts count the answers from the cache, stale ones too, of each kind at
// each revision.
type hitCounts [revision.Count][revision.NumKinds]atomic.Uint64

// hitTable has the counts of each handler, by its name. Like the metrics, they
// live on over a reload.
type hitTable struct {
	mu       sync.Mutex
	handlers map[string]*hitCounts
}

// of returns the counts of a handler.
func (t *hitTable) of(handler string) *hitCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handlers == nil {
		t.handlers = make(map[string]*hitCounts)
	}
	counts := t.handlers[handler]
	if counts == nil {
		counts = new(hitCounts)
		t.handlers[handler] = counts
	}
	return counts
}

// forget removes the counts of a handler that is gone.
func (t *hitTable) forget(handler string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.handlers, handler)
}
