package toolkit

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// Clients is the state of a toolkit's clients that outlives a configuration. A pool holds it, so
// that a reload keeps it.
type Clients struct {
	// Sessions holds the sessions with servers that are open for clients.
	Sessions *session.Table
	// Broker holds the clients that listen for changes.
	Broker *notices.Broker
	// Messages is the memory for messages on their way to and from programs.
	Messages *budget.Room
}

// NewClients returns the state of no clients, with no room for messages.
func NewClients() *Clients {
	return &Clients{session.NewTable(), notices.NewBroker(), budget.NewRoom(0)}
}

// Bound sets how many clients may have sessions open, how many may listen, and how many bytes
// messages may take.
func (c *Clients) Bound(clients int, messages int64) {
	c.Sessions.SetLimit(clients)
	c.Broker.SetLimit(clients)
	c.Messages.SetLimit(messages)
}

// Destruct implements [caddy.Destructor]. It ends the streams of clients. The servers end the
// sessions themselves, as there may be more of them than Caddy has time to end.
func (c *Clients) Destruct() error {
	c.Broker.End()
	return nil
}

// Interface guard
var _ caddy.Destructor = (*Clients)(nil)
