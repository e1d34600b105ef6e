// Package catalog has the lists as the callers of an endpoint see them. A [Catalog] has the lists
// of one server: as they are, or as a view leaves them. A [Joined] has the joined lists of several
// servers.
//
// It knows nothing of requests, of Caddy, and of how a backend gets its lists.
package catalog

import (
	"context"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Catalog is what the callers of one endpoint see.
type Catalog struct {
	cache *cache.Cache
}

// Of returns the catalogue of the one backend that has that cache.
func Of(c *cache.Cache) *Catalog { return &Catalog{cache: c} }

// List returns the feed's snapshot of a list, which everybody whom its partition
// admits may be given, or nil. It is as it came: see [Catalog.VisibleTo].
func (c *Catalog) List(r revision.Revision, k revision.Kind) *cache.Entry {
	return c.cache.Pinned(r, k)
}

// VisibleTo returns an answer as the callers of a view see it, which is e itself where nothing
// is hidden; of a nil view always. It returns nil if that cannot be said: see
// [cache.Cache.VisibleTo].
func (c *Catalog) VisibleTo(ctx context.Context, e *cache.Entry, v *policy.View, now time.Time) *cache.Entry {
	if v == nil {
		return e
	}
	return c.cache.VisibleTo(ctx, e, v, now)
}
