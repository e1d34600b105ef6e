package variant

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// snapshotOf returns a snapshot whose items have the digest 1.
func snapshotOf(c *cache.Cache) *cache.Entry {
	return &cache.Entry{
		Kind: tools, Revision: rev, Body: &message.Body{ItemsDigest: [32]byte{1}},
		Fetched: time.Unix(1000, 0), Lifetime: time.Hour, Mark: c.Mark(tools),
	}
}
