package cache

import (
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Variant tells the clients apart that declare different capabilities: nothing
// forbids a modern server to show them different lists. The zero value is that
// of clients without capabilities, as which the feed asks.
type Variant [8]byte

// maxAgreements bounds how many agreements are remembered. Real clients come
// in a handful of variants.
const maxAgreements = 1024

// agreements remembers for which variants the feed's snapshot has been found
// to be what they are given too.
type agreements struct {
	mu    sync.RWMutex
	found map[agreementKey]agreement
}

type agreementKey struct {
	revision revision.Revision
	kind     revision.Kind
	variant  Variant
}

type agreement struct {
	digest [32]byte
	epoch  uint64
}

// Agree records that clients of variant v were given the same as the feed's
// snapshot e. It holds until a change of the kind is announced or seen.
func (c *Cache) Agree(v Variant, e *Entry) {
	a := &c.agreements
	a.mu.Lock()
	defer a.mu.Unlock()
	key := agreementKey{e.Revision, e.Kind, v}
	if _, known := a.found[key]; a.found == nil || !known && len(a.found) >= maxAgreements {
		a.found = make(map[agreementKey]agreement)
	}
	a.found[key] = agreement{e.Body.Digest, e.Mark.epoch}
}

// Agrees reports whether the feed's snapshot e is known to be what clients of
// variant v are given.
func (c *Cache) Agrees(v Variant, e *Entry) bool {
	if v == (Variant{}) {
		return true
	}
	a := &c.agreements
	a.mu.RLock()
	defer a.mu.RUnlock()
	found, ok := a.found[agreementKey{e.Revision, e.Kind, v}]
	return ok && found.digest == e.Body.Digest && found.epoch == e.Mark.epoch
}
