// Package client is our own MCP client, which the feeds use. It opens an upstream session at one
// revision of the protocol. In the session it asks for whole lists and single resources, listens
// for notices, and answers the few requests that a server may send. It uses mcp-go's transport
// below mcp-go's typed client, so that results keep the bytes that the upstream wrote. It bounds
// everything that an upstream sends.
//
// It knows nothing of feeds, epochs, lifetimes and the cache. It knows nothing of Caddy either:
// requests leave through an [http.RoundTripper], and a credential comes from a [guards.Guard].
package client

import (
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Policy is what an operator may change while sessions are open.
type Policy struct {
	// MaxList is the most bytes of one list, and so of one message.
	MaxList int64
	// MaxPages is the most pages of one list.
	MaxPages int
	// Endpoint is the URL of the MCP endpoint; empty if only the handler that
	// reaches the upstream knows where that is.
	Endpoint string
	// Guard holds our credential; nil if there is none.
	Guard guards.Guard
	// Name is what we call ourselves; "" for "mcp_cache".
	Name string
	// Sent are credentials that Base puts on each request: answers must not hold them.
	Sent http.Header
}

// Config is what a client is made of.
type Config struct {
	// Revision is the one that sessions are opened at, and no other.
	Revision revision.Revision
	// URL is that of the MCP endpoint, as requests name it.
	URL string
	// Base carries the requests to the upstream.
	Base http.RoundTripper
	// ReadSlot has the clients of an upstream, which share one, read one long list at a
	// time.
	ReadSlot ReadSlot
	// Policy returns what is in force.
	Policy func() Policy
	// OnNotice is called with the method of each notification, on whatever stream it
	// arrives, before anything after it is read.
	OnNotice func(method string)
}

// Client opens sessions with one upstream at one revision. Its methods may be
// called from several goroutines at once.
type Client struct {
	Config

	// transport is Base with our credential and our bounds.
	transport http.RoundTripper
	// replies are those to requests of the server, in all sessions.
	replies replies
}

// New returns a client. Nothing is sent before a session is opened.
func New(c Config) *Client {
	return &Client{Config: c, transport: &guarded{
		policy: c.Policy,
		base: &discreet{policy: c.Policy, base: &limiter{
			base: c.Base,
			// A list of the largest size comes with some members around it.
			maxMessage: func() int64 { return c.Policy().MaxList + messageOverhead },
		}},
	}}
}

// messageOverhead is the room that a message may take beyond its list, in bytes.
const messageOverhead = 64 << 10

// Unanswered returns how many requests of the server got no answer, because it
// asked for more than a few at a time.
func (c *Client) Unanswered() int64 { return c.replies.dropped.Load() }
