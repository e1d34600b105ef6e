package feed

import (
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Change is how a snapshot differs from the one before it. Items are identified by
// their names, URIs or URI templates.
type Change struct {
	Kind     revision.Kind
	Revision revision.Revision
	// Items is how many there are now.
	Items   int
	Added   []string
	Removed []string
	// Changed are items that are still there, but not byte for byte.
	Changed []string
	// More is how many more items differ: of very many, only some are named.
	More int
	// Same says that the snapshots do not differ at all, nor in the members around
	// the items.
	Same bool
}

// compare returns how now differs from before, which may be nil.
func compare(before, now *cache.Entry) Change {
	c := Change{Kind: now.Kind, Revision: now.Revision, Items: now.Body.Items}
	var was *message.Body
	if before != nil {
		was = before.Body
		if was.Digest == now.Body.Digest {
			c.Same = true
			return c
		}
	}
	d := message.Compare(was, now.Body)
	c.Added, c.Removed, c.Changed, c.More = d.Added, d.Removed, d.Changed, d.More
	return c
}
