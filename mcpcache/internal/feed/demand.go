package feed

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// Demand returns the fetch that brings the list as it is now for clients of a variant,
// nil being the feed's own, and starts one if need be. Callers who miss at the same
// time share it. It returns nil if the feed cannot fetch: it is not connected, the
// upstream does not have the list, the last attempt failed and the next is not due, or
// there are too many variants.
func (l *List) Demand(v *variant.Record) *Fetch {
	f := l.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn == nil || !l.offered {
		return nil
	}
	if fetch := l.current(v, (*Fetch).isCurrent); fetch != nil {
		return fetch
	}
	// It may have been fetched since the caller looked it up.
	if e := l.fresh(v); e != nil {
		return finishedFetch(e, v)
	}
	if coming := l.comingFrom(); v == nil && coming != nil {
		return coming
	}
	if l.failure != nil && l.due.After(time.Now()) || len(l.fetches) >= maxFetches || !f.conn.mayAskAs(v) {
		return nil
	}
	return l.fetch(f.conn, v)
}

// isCurrent reports whether a fetch that has begun brings the newest list: since then, no change
// has been announced and no client of its variant has been given a list.
func (f *Fetch) isCurrent() bool {
	l := f.list
	current := l.feed.cache.Current(l.kind, f.mark)
	if !current || f.variant == nil {
		return current
	}
	given := f.variant.Seen(l.feed.revision, l.kind)
	return given == nil || !given.ByClient || !given.At.After(f.begunAt)
}

// fresh returns a fresh list for clients of a variant, or nil.
func (l *List) fresh(v *variant.Record) *cache.Entry {
	f := l.feed
	now := time.Now()
	own := l.ownFor(v)
	if own != nil && (v == nil || v.Seen(f.revision, l.kind).Agrees(own)) && f.cache.Freshness(own, now) == cache.Fresh {
		return own
	}
	policy := f.policy()
	for _, partition := range [...]cache.Partition{policy.partitionFor(message.ScopePrivate, v), cache.EverybodyWho(askedBy(v))} {
		e := f.cache.Get(cache.Question{Revision: f.revision, Kind: l.kind, Partition: partition, Variant: keyOf(v)})
		if e != nil && f.cache.Freshness(e, now) == cache.Fresh && (v == nil || v.IsLatest(e, own)) {
			return e
		}
	}
	return nil
}
