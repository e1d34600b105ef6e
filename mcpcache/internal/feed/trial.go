package feed

import (
	"maps"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// try has kind k asked for once, if the server does not offer it: some servers write
// their capabilities otherwise than as objects, or leave them out, and have the list all
// the same (codebase-memory#1185, batpred#3501). It is asked for again when the server
// offers something else. The caller holds f.mu.
func (f *Feed) try(s *client.Session, k revision.Kind) {
	slot := &f.slots[k]
	switch offers := s.Server().Capabilities; {
	case !f.policy().Kinds.Has(k):
		slot.triedFor = nil
	case slot.offered, !k.In(f.revision), slot.triedFor != nil && maps.Equal(slot.triedFor, offers):
	default:
		slot.triedFor = offers
		slot.offered, slot.trial = true, true
		slot.due = later(time.Now(), slot.notBefore)
	}
}

// Learn tells the feed that the server has given a client a list of kind k: some offer
// kinds only to clients that can do something themselves (crush#1447).
func (f *Feed) Learn(k revision.Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slot := &f.slots[k]
	if !f.hydrated || slot.offered || !f.policy().Kinds.Has(k) {
		return
	}
	slot.offered, slot.learned = true, true
	slot.due = later(time.Now(), slot.notBefore)
	signal(f.wake)
}

// Learned reports whether the server has given clients kind k, and not the feed.
func (f *Feed) Learned(k revision.Kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slots[k].learned
}
