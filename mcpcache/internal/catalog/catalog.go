// Package catalog has the lists as the callers of an endpoint see them. There is one
// server behind an endpoint, and everybody sees its lists as they are: what the
// catalogue returns is the server's pinned entry itself.
//
// It knows nothing of requests, of Caddy, and of how a backend comes by its
// lists.
package catalog

import (
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Catalog is what the callers of one endpoint see.
type Catalog struct {
	cache *cache.Cache
}

// Of returns the catalogue of the one backend that has that cache.
func Of(c *cache.Cache) *Catalog { return &Catalog{cache: c} }

// List returns the feed's snapshot of a list, which everybody whom its partition
// admits may be given, or nil.
func (c *Catalog) List(r revision.Revision, k revision.Kind) *cache.Entry {
	return c.cache.Pinned(r, k)
}
