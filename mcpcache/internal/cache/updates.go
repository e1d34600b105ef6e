package cache

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// maxUpdates bounds how many URIs are remembered, of updated resources and of those
	// above them. One more outdates all reads.
	maxUpdates = 4096
	// maxUpdatedURI bounds the URI that an update may be about, in bytes.
	maxUpdatedURI = 2048
)

// updates remembers which single resources have been updated. A notice about a resource
// concerns those below it, and those above it too: a server may name a changed part of
// the resource that was subscribed to (SUBSCRIPTIONS, "Resource Updates").
type updates struct {
	seq atomic.Uint64 // how many there have been

	mu sync.RWMutex
	// under holds updated URIs: they and all below them are outdated. above
	// holds those that are above an updated one.
	under, above map[string]uint64
}

// Update records that a change of one resource has been announced. When it returns, all
// that was read of the resource before is outdated.
func (c *Changes) Update(uri string) {
	c.update(uri)
	c.PublishChange(Change{URIs: []string{uri}, Told: true}) // feeds subscribe to none
}

// update outdates a resource.
func (c *Changes) update(uri string) {
	u := &c.updates
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.add(uri) {
		return
	}
	// All reads are outdated before the URIs are forgotten. Bump is not called: the
	// feeds, which watch it, keep no reads.
	c.epochs[revision.Reads].Add(1)
	clear(u.under)
	clear(u.above)
}

// add reports whether there was room. The caller holds u.mu.
func (u *updates) add(uri string) bool {
	if len(uri) > maxUpdatedURI {
		return false
	}
	if u.under == nil {
		u.under, u.above = make(map[string]uint64), make(map[string]uint64)
	}
	seq := u.seq.Load() + 1
	u.under[uri] = seq
	for above := range ancestors(uri) {
		u.above[above] = seq
	}
	u.seq.Store(seq)
	return len(u.under)+len(u.above) <= maxUpdates
}

// concern reports whether what was read of a resource, whose URI is given as
// JSON, when there had been so many updates, is outdated by one since.
func (u *updates) concern(rawURI []byte, seen uint64) bool {
	if u.seq.Load() <= seen {
		return false
	}
	var uri string
	if json.Unmarshal(rawURI, &uri) != nil {
		return true
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	if u.under[uri] > seen || u.above[uri] > seen {
		return true
	}
	for above := range ancestors(uri) {
		if u.under[above] > seen {
			return true
		}
	}
	return false
}

// ancestors yields the URIs that uri is below, with and without the separator
// at their end.
func ancestors(uri string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range len(uri) {
			if !strings.ContainsRune("/?#", rune(uri[i])) {
				continue
			}
			if !yield(uri[:i]) || i+1 < len(uri) && !yield(uri[:i+1]) {
				return
			}
		}
	}
}
