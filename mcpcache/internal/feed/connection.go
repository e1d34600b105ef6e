package feed

import (
	"context"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
)

// connection is a feed's session with the upstream, for as long as that lasts.
type connection struct {
	*client.Session

	feed   *Feed
	ctx    context.Context
	end    context.CancelCauseFunc // ends it
	ended  chan struct{}           // closed when it has been closed
	opened time.Time

	// Guarded by the feed's mu:

	listening bool
	refused   bool      // to be listened to, the last time
	listened  time.Time // when the feed last began to listen; zero if never
	variants  map[cache.Variant]*askedVariant
	reading   int  // reads under way
	hydrated  bool // the lists say which kinds the session offers
	replacing bool // a session is being opened to take the place of this one
}

// newConnection returns a feed's connection in a session that is open. end ends it, and ctx with it.
func newConnection(ctx context.Context, end context.CancelCauseFunc, f *Feed, s *client.Session) *connection {
	return &connection{
		Session: s, feed: f, ctx: ctx, end: end, ended: make(chan struct{}), opened: time.Now(),
		variants: make(map[cache.Variant]*askedVariant),
	}
}

// isHydrated reports whether there is a connection, and the lists say what it offers. The caller holds the
// feed's mu.
func (c *connection) isHydrated() bool { return c != nil && c.hydrated }

func (c *connection) setListening(on, refused bool) {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	c.refused = refused
	if c.listening = on; on {
		c.listened = time.Now()
	}
}
