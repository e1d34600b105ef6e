package toolkit

import (
	"context"
	"errors"
	"strconv"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/bridge"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// handOn hands the request to the server, over a bridge if that one speaks the other era.
func (c *call) handOn() error {
	if c.client == nil {
		if c.speaks.Era() == revision.Modern {
			return c.sendAlone()
		}
		return c.handOver()
	}
	s, f := c.use(c.client)
	if f != nil {
		return c.fail(f)
	}
	defer s.Leave()
	if c.speaks.Era() == revision.Legacy {
		return c.sendInSession(s, c.client)
	}
	return c.handOverAlone(s)
}

// isBridged reports whether the server is of another era than the client.
func (c *call) isBridged() bool { return c.speaks.Era() != c.at.Era() }

// sendAlone sends the server the request outside of any session.
func (c *call) sendAlone() error {
	_, err := c.attempt(place{}, false).send() // there is no session that could be lost
	return err
}

// handOverAlone hands a legacy client's request to a modern server. It ends if the client
// cancels it (2026-07-28, "Streamable HTTP", "Cancellation").
func (c *call) handOverAlone(s *session.Entry) (err error) {
	c.body, err = bridge.ToModern(c.body, bridge.Client{
		Capabilities: c.client.Capabilities, Name: c.client.Name, Version: c.client.Version, Level: s.Level(),
	})
	if err != nil {
		return c.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, err.Error()))
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	c.waits = s.Begin(c.in.Message.ID, cancel)
	defer c.waits.Done(true)
	c.r = c.r.WithContext(ctx)
	return c.sendAlone()
}

// handOver hands a modern client's request to a legacy server, in a session that is opened for
// its caller. One who is not known has one for a single request, unless the server does not
// tell sessions apart.
func (c *call) handOver() error {
	client, err := c.caller()
	if err != nil {
		return c.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, err.Error()))
	}
	c.number = strconv.AppendInt(nil, c.endpoint.Settings.Sessions.Number(), 10)
	if c.body, err = bridge.ToLegacy(c.body, c.number); err != nil {
		return c.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, err.Error()))
	}
	if f := c.server.Feeds.Of(c.speaks); client.Shared && (f == nil || !f.Sessionless()) {
		client = client.Once()
	}
	if err = c.handOverAs(client); errors.Is(err, errGivesID) {
		err = c.handOverAs(client.Once())
	}
	return err
}

func (c *call) handOverAs(client *session.Claims) error {
	s, f := c.use(client)
	if f != nil {
		return c.fail(f)
	}
	if client.IsOnce() {
		defer s.End()
	} else {
		defer s.Leave()
	}
	return c.sendInSession(s, client)
}

// caller returns as whom sessions are opened for a modern client.
func (q *request) caller() (*session.Claims, error) {
	info := func(member string) string {
		return message.StringAt(q.in.Body.Bytes, "params", "_meta", message.MetaClientInfo, member)
	}
	whose := q.principal()
	if q.isKnown() {
		whose += "\n" + string(q.whose())
	}
	c, err := session.Of(whose, q.in.Message.Meta.Capabilities, info("name"), info("version"))
	c.Shared = q.user() == "" && !q.isKnown()
	return &c, err
}
