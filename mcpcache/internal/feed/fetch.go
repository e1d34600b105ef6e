package feed

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// Fetch is one request for a whole list, and the flight of all who wait for the list. It may
// begin later than it was asked for, having waited for its session or for more notices.
type Fetch struct {
	*flight.Flight[*cache.Entry]

	list    *List
	variant *variant.Record // nil is the feed's own

	// Guarded by the feed's mu until the flight has landed:

	// begun says that its first request is being sent. Changes that were announced
	// before that are in its result.
	begun   bool
	begunAt time.Time
	mark    cache.Mark // of that moment

	// entry and err are what the flight lands with.
	entry *cache.Entry
	err   error
	// times are those that the entry's lifetime is by.
	times Times
	// server is what a fetch of [revision.Discover] says of the upstream, or nil.
	server *client.ServerInfo
	// change is how the entry differs from the feed's snapshot before, if the fetch
	// was for that.
	change Change
	// overtaken says that a newer snapshot has been pinned already.
	overtaken bool
	// elsewhere says that another instance has fetched the entry, aged that it was due for no
	// other reason than the age of the one before.
	elsewhere, aged bool
}

// finishedFetch returns a fetch that has already brought e.
func finishedFetch(e *cache.Entry, v *variant.Record) *Fetch {
	f := &Fetch{Flight: flight.New[*cache.Entry](), mark: e.Mark, begun: true, variant: v, entry: e}
	f.Land(e, nil)
	return f
}

// Since reports whether the fetch began no earlier than m, so that its result has all
// changes announced before m. It may be called once Wait has returned a snapshot.
func (f *Fetch) Since(m cache.Mark) bool { return f.mark.Since(m) }
