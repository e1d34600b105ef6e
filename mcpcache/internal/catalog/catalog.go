// Package catalog is the lists as the callers of an endpoint see them. There is
// one server behind an endpoint: its catalogue is of one, with the identity
// view. Everybody sees the lists as they are, and what is handed out is the
// pinned entry itself.
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

// List returns the list that the feeds were given for all whom its partition
// admits, or nil. It is the snapshot itself, and its mark the backend's.
func (c *Catalog) List(r revision.Revision, k revision.Kind) *cache.Entry {
	return c.cache.Pinned(r, k)
}
