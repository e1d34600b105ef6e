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

// ReadOnly reports whether the list of tools marks that one as read-only.
func (b *Backend) ReadOnly(r revision.Revision, tool string) bool {
	e := b.Cache.Pinned(r, revision.Tools)
	if e == nil || tool == "" {
		return false
	}
	set := b.readOnlyLists[r].Load()
	if set == nil || set.digest != e.Body.Digest {
		set = &readOnlyTools{digest: e.Body.Digest, names: make(map[string]bool)}
		for item := range e.Body.Each() {
			if message.AnnotationsOf(item).ReadOnly {
				set.names[e.Body.Name(item)] = true
			}
		}
		b.readOnlyLists[r].Store(set)
	}
	return set.names[tool]
}
