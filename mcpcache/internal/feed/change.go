package feed

import (
	"bytes"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Change is what is different in a snapshot from the one before it. Items are
// called by what tells them apart: names, URIs, URI templates.
type Change struct {
	Kind     revision.Kind
	Revision revision.Revision
	// Items is how many there are now.
	Items   int
	Added   []string
	Removed []string
	// Changed are items that are still there, but not byte for byte.
	Changed []string
	// Same says that nothing at all is different, nor in the members around
	// the items.
	Same bool
}

// compare tells what is different in now; before may be nil.
func compare(before, now *cache.Entry) Change {
	c := Change{Kind: now.Kind, Revision: now.Revision, Items: now.Body.Items}
	if before != nil && before.Body.Digest == now.Body.Digest {
		c.Same = true
		return c
	}
	was := itemsOf(before)
	items := message.Items(now.Body.Bytes, now.Kind)
	for i, name := range now.Body.Names {
		old, ok := was[name]
		switch {
		case !ok:
			c.Added = append(c.Added, name)
		case !bytes.Equal(old, items[i]):
			c.Changed = append(c.Changed, name)
		}
		delete(was, name)
	}
	if before == nil {
		return c
	}
	for _, name := range before.Body.Names {
		if _, gone := was[name]; gone {
			c.Removed = append(c.Removed, name)
		}
	}
	return c
}

func itemsOf(e *cache.Entry) map[string][]byte {
	if e == nil {
		return nil
	}
	items := message.Items(e.Body.Bytes, e.Kind)
	byName := make(map[string][]byte, len(items))
	for i, name := range e.Body.Names {
		byName[name] = items[i]
	}
	return byName
}
