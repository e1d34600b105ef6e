package feed

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// Demand returns the fetch that brings a kind as it is now for clients of a variant,
// nil being the feed's own, and starts one if need be. Callers who miss at the same
// time share it. It returns nil if the feed cannot fetch: it is not connected, the
// upstream does not have the kind, the last attempt failed and the next is not due, or
// there are too many variants.
func (f *Feed) Demand(k revision.Kind, v *variant.Record) *Fetch {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.slots[k]
	if f.session == nil || !s.offered {
		return nil
	}
	if fetch := s.current(v, f.isCurrent(k)); fetch != nil {
		return fetch
	}
	// It may have been fetched since the caller looked it up.
	if e := f.fresh(k, v); e != nil {
		return finishedFetch(e, v)
	}
	if coming := f.comingFrom(k); v == nil && coming != nil {
		return coming
	}
	if s.failure != nil && s.due.After(time.Now()) || len(s.fetches) >= maxFetches || !f.mayAskAs(v) {
		return nil
	}
	return f.fetch(f.ctx, f.session, k, v)
}

// isCurrent returns a function that reports whether a fetch that has begun brings the
// newest list: since then, no change has been announced and no client of its variant
// has been given a list.
func (f *Feed) isCurrent(k revision.Kind) func(*Fetch) bool {
	return func(fetch *Fetch) bool {
		if !f.cache.Current(k, fetch.mark) || fetch.variant == nil {
			return f.cache.Current(k, fetch.mark)
		}
		given := fetch.variant.Seen(f.revision, k)
		return given == nil || !given.ByClient || !given.At.After(fetch.begunAt)
	}
}

// fresh returns a fresh list for clients of a variant, or nil.
func (f *Feed) fresh(k revision.Kind, v *variant.Record) *cache.Entry {
	now := time.Now()
	own := f.ownFor(k, v)
	if own != nil && (v == nil || v.Seen(f.revision, k).Agrees(own)) && f.cache.Freshness(own, now) == cache.Fresh {
		return own
	}
	policy := f.policy()
	for _, partition := range [...]cache.Partition{policy.partitionFor(message.ScopePrivate, v), cache.EverybodyWho(askedBy(v))} {
		e := f.cache.Get(cache.Question{Revision: f.revision, Kind: k, Partition: partition, Variant: keyOf(v)})
		if e != nil && f.cache.Freshness(e, now) == cache.Fresh && (v == nil || v.Shown(e, own)) {
			return e
		}
	}
	return nil
}
