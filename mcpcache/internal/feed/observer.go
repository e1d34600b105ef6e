package feed

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Observer learns what feeds do. Its methods must return at once.
type Observer interface {
	// Refreshed is called after each fetch of the feed's own snapshots. err is why it
	// failed, or nil; same says that it brought nothing new.
	Refreshed(r revision.Revision, k revision.Kind, took time.Duration, same bool, err error)
	// Changed is called when a snapshot is different from the one before it.
	Changed(c Change)
	// StateChanged is called when a feed has entered another state.
	StateChanged(from State, now Status)
	// Noticed is called when the upstream has announced a change to a feed.
	Noticed(kinds revision.KindSet)
}
