package toolkit

import (
	"context"
	"errors"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/bridge"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// handOn hands a request to the server that it is for, over a bridge if that one speaks the
// other era.
func (v *visit) handOn(next caddyhttp.Handler, body []byte, name string) error {
	v.speaks = v.server.at(v.at).Era()
	if v.client == nil {
		if v.speaks == revision.Modern {
			return v.call(next, body, name)
		}
		return v.handOver(next, body, name)
	}
	s, f := v.use(v.client)
	if f != nil {
		return v.fail(f)
	}
	defer s.Leave()
	if v.speaks == revision.Legacy {
		v.as = v.client
		return v.callInSession(next, s, body, name)
	}
	return v.callWithoutSession(next, s, body, name)
}

// isBridged reports whether the server is of another era than the client.
func (v *visit) isBridged() bool { return v.server != nil && v.speaks != v.at.Era() }

// callWithoutSession hands a legacy client's request to a modern server. It ends if the client
// cancels it (2026-07-28, "Streamable HTTP", "Cancellation").
func (v *visit) callWithoutSession(next caddyhttp.Handler, s *session.Session, body []byte, name string) error {
	body, err := bridge.ToModern(body, bridge.Client{
		Capabilities: v.client.Capabilities, Name: v.client.Name, Version: v.client.Version, Level: s.Level(),
	})
	if err != nil {
		return v.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, err.Error()))
	}
	ctx, cancel := context.WithCancel(v.r.Context())
	defer cancel()
	v.waits = s.Begin(v.in.Message.ID, cancel)
	defer v.waits.Done(true)
	v.r = v.r.WithContext(ctx)
	return v.call(next, body, name)
}

// handOver hands a modern client's request to a legacy server, in a session that is opened for
// its caller. One who is not known has one for a single request, unless the server does not
// tell sessions apart.
func (v *visit) handOver(next caddyhttp.Handler, body []byte, name string) error {
	client, err := v.caller()
	if err != nil {
		return v.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, err.Error()))
	}
	v.number = strconv.AppendInt(nil, v.endpoint.Settings.Sessions.Number(), 10)
	if body, err = bridge.ToLegacy(body, v.number); err != nil {
		return v.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, err.Error()))
	}
	if f := v.server.feed(v.at); client.Shared && (f == nil || !f.Sessionless()) {
		client = client.Once()
	}
	if err = v.handOverAs(next, client, body, name); errors.Is(err, errGivesID) {
		err = v.handOverAs(next, client.Once(), body, name)
	}
	return err
}

func (v *visit) handOverAs(next caddyhttp.Handler, client *session.Client, body []byte, name string) error {
	s, f := v.use(client)
	if f != nil {
		return v.fail(f)
	}
	if client.IsOnce() {
		defer s.End()
	} else {
		defer s.Leave()
	}
	v.as = client
	return v.callInSession(next, s, body, name)
}

// caller returns as whom sessions are opened for a modern client.
func (v *visit) caller() (*session.Client, error) {
	info := func(member string) string {
		return message.StringAt(v.in.Body.Bytes, "params", "_meta", message.MetaClientInfo, member)
	}
	whose := v.principal()
	if v.isKnown() {
		whose += "\n" + string(v.whose())
	}
	c, err := session.Of(whose, v.in.Message.Meta.Capabilities, info("name"), info("version"))
	c.Shared = v.user() == "" && !v.isKnown()
	return &c, err
}
