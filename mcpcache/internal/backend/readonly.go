package backend

import (
	"sync/atomic"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// readOnlyTools are the tools of one list that are marked as read-only.
type readOnlyTools struct {
	digest [32]byte
	names  map[string]bool
}

// readOnlyLists has the read-only tools of each revision's list.
type readOnlyLists [revision.Count]atomic.Pointer[readOnlyTools]

// ReadOnly returns the names of the tools that the list marks as read-only. It must not be
// changed.
func (b *Backend) ReadOnly(r revision.Revision) map[string]bool {
	e := b.Cache.Pinned(r, revision.Tools)
	if e == nil {
		return nil
	}
	set := b.readOnlyLists[r].Load()
	if set == nil || set.digest != e.Body.Digest {
		set = &readOnlyTools{digest: e.Body.Digest, names: make(map[string]bool)}
		for item := range e.Body.Each() {
			if name := e.Body.Name(item); name != "" && message.AnnotationsOf(item).ReadOnly {
				set.names[name] = true
			}
		}
		b.readOnlyLists[r].Store(set)
	}
	return set.names
}
