package backend

import (
	"cmp"
	"context"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
)

// leases decides which instance fetches, while this one receives the changes that others publish.
type leases struct {
	*persist.Keeper

	fleet *fleet.Member
}

// Lease implements [feed.Leases].
func (t leases) Lease(ctx context.Context, own *cache.Entry) (e *cache.Entry, end func()) {
	if !t.fleet.Together() {
		return nil, func() {}
	}
	return t.Keeper.Lease(ctx, t.fleet.Name(), own)
}

// Several implements [feed.Leases].
func (t leases) Several() bool { return t.fleet.Together() }

// FleetState returns how the store is that instances share, or nil if it is not shared, and how this
// one stands among them.
func (b *Backend) FleetState() (*persist.Fleet, fleet.Status) {
	f, standing := b.Keeper.Fleet(), b.Fleet.Status()
	if f != nil && !standing.Together {
		f.Trouble = cmp.Or(b.Fleet.Failure(), f.Trouble)
	}
	return f, standing
}
