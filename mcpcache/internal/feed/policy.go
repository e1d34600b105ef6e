package feed

import (
	"cmp"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// The defaults of what a policy holds.
const (
	DefaultTTL      = 5 * time.Minute
	DefaultMaxTTL   = 24 * time.Hour
	DefaultRefresh  = time.Second
	DefaultMaxList  = 32 << 20
	DefaultMaxPages = 1000
)

// Policy is what an operator may change while a feed runs.
type Policy struct {
	// Kinds are those that are kept.
	Kinds revision.KindSet
	// Eras are those that the feeds speak; none at all stand for both. They are the
	// same for as long as the feeds run.
	Eras []revision.Era
	// NoServer is true if nobody knows which server a feed should ask. Then no feed runs.
	NoServer bool
	// Times are those of all kinds.
	Times
	// ByKind has the times of single kinds; where one is 0, that in Times counts.
	ByKind [revision.NumKinds]Times
	// Refresh is the least time between two refreshes of a kind that notices
	// or expiries start.
	Refresh time.Duration
	// PublicByDefault makes lists that carry no cacheScope everybody's.
	PublicByDefault bool
	// PublicAlways makes all lists everybody's, whatever their cacheScope.
	PublicAlways bool
	// FeedOnly keeps what the feed is given from all clients, since their requests
	// reach the upstream with values that the feed's lack. What PublicByDefault and
	// PublicAlways make everybody's is everybody's all the same.
	FeedOnly bool
	// The rest is for our client.
	client.Policy
	// Observer learns what the feeds do; nil if nobody wants to know.
	Observer Observer
	// Sleeper is the upstream if it sleeps while nobody uses it; nil if it never does.
	Sleeper Sleeper
	// Leases decides which of several instances fetches a list; nil if there is only one.
	Leases Leases
}

// Times say how long lists are fresh.
type Times struct {
	// TTL is for lists that carry no ttlMs.
	TTL time.Duration
	// MinTTL is the least, whatever the upstream says.
	MinTTL time.Duration
	// MaxTTL is the most.
	MaxTTL time.Duration
}

// speaks reports whether the feeds speak that era.
func (p *Policy) speaks(e revision.Era) bool {
	return !p.NoServer && (len(p.Eras) == 0 || slices.Contains(p.Eras, e))
}

// Of returns the times of kind k. Contents of resources have the MaxTTL of the list of
// resources, and no MinTTL.
func (p *Policy) Of(k revision.Kind) Times {
	own := p.ByKind[k]
	if k == revision.Reads {
		own = Times{MaxTTL: p.ByKind[revision.Resources].MaxTTL}
	}
	times := Times{
		TTL: cmp.Or(own.TTL, p.TTL), MinTTL: cmp.Or(own.MinTTL, p.MinTTL), MaxTTL: cmp.Or(own.MaxTTL, p.MaxTTL),
	}
	if k == revision.Reads {
		times.MinTTL = 0
	}
	return times
}

// Lifetime returns how long an answer of kind k is fresh if the upstream has given that
// TTL, or none.
func (p *Policy) Lifetime(k revision.Kind, ttl time.Duration, given bool) time.Duration {
	times := p.Of(k)
	if !given {
		ttl = times.TTL
	}
	return min(max(ttl, times.MinTTL, 0), times.MaxTTL)
}

// Partition returns who may be given a list that the feed was given with that scope.
func (p *Policy) Partition(scope message.Scope) cache.Partition {
	switch {
	case p.PublicAlways, scope == message.ScopeUnset && p.PublicByDefault,
		scope == message.ScopePublic && (p.PublicByDefault || !p.FeedOnly):
		return cache.Public
	}
	return p.owner()
}

// partitionFor returns who may be given a list that the feed was given with that scope when
// it asked as a client of variant v.
func (p *Policy) partitionFor(scope message.Scope, v *variant.Record) cache.Partition {
	partition := p.Partition(scope)
	switch {
	case partition.IsPublic():
		return cache.EverybodyWho(askedBy(v))
	case partition == cache.Anonymous:
		return cache.WithoutCredentials(askedBy(v))
	}
	return partition
}

// owner returns the feed's own authorization context: that of callers without
// credentials, or one that no client is in.
func (p *Policy) owner() cache.Partition {
	if p.Guard == nil && !p.FeedOnly {
		return cache.Anonymous
	}
	return cache.FeedOnly
}
