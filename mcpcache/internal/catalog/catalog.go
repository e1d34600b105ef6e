// Package catalog has the lists as the callers of an endpoint see them. There is one
// server behind an endpoint, and everybody sees the same of it: its lists as they are,
// or without what rules hide.
//
// It knows nothing of requests, of Caddy, and of how a backend comes by its
// lists.
package catalog

import (
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Catalog is what the callers of one endpoint see.
type Catalog struct {
	cache *cache.Cache
	view  *policy.View
}

// Of returns the catalogue of the one backend that has that cache. view is what callers
// may see, nil if that is everything.
func Of(c *cache.Cache, view *policy.View) *Catalog { return &Catalog{cache: c, view: view} }

// List returns the feed's snapshot of a list, which everybody whom its partition
// admits may be given, or nil. It is as it came: see [Catalog.Shown].
func (c *Catalog) List(r revision.Revision, k revision.Kind) *cache.Entry {
	return c.cache.Pinned(r, k)
}

// Shown returns an answer as callers see it, which is e itself where nothing is hidden.
// It returns nil if that cannot be said: see [cache.Cache.Shown].
func (c *Catalog) Shown(e *cache.Entry) *cache.Entry {
	if !c.view.Restricts(e.Kind) {
		return e
	}
	return c.cache.Shown(e, c.view)
}
