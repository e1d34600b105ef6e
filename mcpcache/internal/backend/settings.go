package backend

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Settings are the options of a handler that are about one server, with the defaults
// filled in. See the options of the same names.
type Settings struct {
	// Kinds are cached.
	Kinds revision.KindSet
	// Stale says who may be given copies that are not fresh, and for how long.
	Stale freshness.Policy
	// Gate is how long the answer to initialize may wait for the first hydrate.
	Gate time.Duration
	// AdmitAll says that handlers in front decide whom to let in; if not, the server
	// does, and its acceptance counts for AdmitFor.
	AdmitAll bool
	AdmitFor time.Duration
	// Host is what the feed sends; "" is the server's address.
	Host string
	// Addresses are those that the server is sent as its own, whoever asks.
	Addresses redirect.Addresses
	// Memory is how many bytes everything but the snapshots may take.
	Memory int64
	// Precompress says whether answers are compressed ahead of requests.
	Precompress bool
	Feed        feed.Policy
}

// Defaults returns the settings without any option.
func Defaults() *Settings {
	kinds := revision.SetOf(revision.Kinds()...)
	return &Settings{
		Kinds: kinds, Stale: freshness.Policy{IfError: 24 * time.Hour}, Gate: 2 * time.Second, AdmitFor: 5 * time.Minute,
		Memory: 64 << 20, Precompress: true,
		Feed: feed.Policy{
			Kinds: kinds, Times: feed.Times{TTL: feed.DefaultTTL, MaxTTL: feed.DefaultMaxTTL},
			Refresh: feed.DefaultRefresh, Policy: client.Policy{MaxList: feed.DefaultMaxList, MaxPages: feed.DefaultMaxPages},
		},
	}
}

// Caches reports whether the operator wants kind k cached. Single resources
// follow the lists of resources.
func (s *Settings) Caches(k revision.Kind) bool {
	if k == revision.Reads {
		k = revision.Resources
	}
	return s.Kinds.Has(k)
}
