package feed

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Policy is what an operator may change while a feed goes on.
type Policy struct {
	// Kinds are those that are kept.
	Kinds revision.KindSet
	// TTL is how long a list is fresh that carries no ttlMs.
	TTL time.Duration
	// MaxTTL caps how long any list is fresh.
	MaxTTL time.Duration
	// Refresh is the least time between two refreshes of a kind that notices
	// or expiries start.
	Refresh time.Duration
	// PublicByDefault makes lists that carry no cacheScope everybody's.
	PublicByDefault bool
	// MaxList is the most bytes of one list, and so of one message.
	MaxList int64
	// MaxPages is the most pages of one list.
	MaxPages int
	// Guard holds the feed's credential; nil if it has none.
	Guard guards.Guard
	// Observer is told what the feeds do; nil if nobody wants to know.
	Observer Observer
}

// Lifetime returns how long an answer is fresh whose upstream gave that TTL.
func (p *Policy) Lifetime(ttl time.Duration, given bool) time.Duration {
	if !given {
		ttl = p.TTL
	}
	return min(max(ttl, 0), p.MaxTTL)
}

// Partition returns who may be given an answer of that scope that a caller in
// the authorization context owner was given.
func (p *Policy) Partition(scope message.Scope, owner cache.Partition) cache.Partition {
	if scope == message.ScopePublic || scope == message.ScopeUnset && p.PublicByDefault {
		return cache.Public
	}
	return owner
}

// owner is the authorization context of the feed itself: that of everybody
// without credentials, or one that no client is in.
func (p *Policy) owner() cache.Partition {
	if p.Guard == nil {
		return cache.Anonymous
	}
	return cache.FeedOnly
}
