package feed

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// Demand returns the fetch that brings a kind as it is now for clients of a
// variant, starting one if need be; callers who miss together share it. nil is
// the variant of the feed itself. It returns nil when the feed cannot help: it is
// not connected, the upstream does not have the kind, the last attempt failed and
// the next is not due, or there are too many variants.
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
	// It may have been fetched since the caller looked.
	if e := f.fresh(k, v); e != nil {
		return finishedFetch(e, v)
	}
	if s.failure != nil && s.due.After(time.Now()) || len(s.fetches) >= maxFetches || !f.mayAskAs(v) {
		return nil
	}
	return f.fetch(f.ctx, f.session, k, v)
}

// isCurrent returns whether a fetch that has begun brings what is newest: there was
// no change since, and no client of its variant was given a list since.
func (f *Feed) isCurrent(k revision.Kind) func(*Fetch) bool {
	return func(fetch *Fetch) bool {
		if !f.cache.Current(k, fetch.mark) || fetch.variant == nil {
			return f.cache.Current(k, fetch.mark)
		}
		given := fetch.variant.Seen(f.revision, k)
		return given == nil || !given.ByClient || !given.At.After(fetch.begunAt)
	}
}

// fresh returns what is fresh of a kind for clients of a variant, or nil.
func (f *Feed) fresh(k revision.Kind, v *variant.Record) *cache.Entry {
	now := time.Now()
	own := f.cache.Pinned(f.revision, k)
	if own != nil && (v == nil || v.Seen(f.revision, k).Agrees(own)) && f.cache.Freshness(own, now) == cache.Fresh {
		return own
	}
	for _, partition := range [...]cache.Partition{f.Owner(), cache.Public} {
		e := f.cache.Get(cache.Question{Revision: f.revision, Kind: k, Partition: partition, Variant: keyOf(v)})
		if e != nil && f.cache.Freshness(e, now) == cache.Fresh && (v == nil || v.Shown(e, own)) {
			return e
		}
	}
	return nil
}
