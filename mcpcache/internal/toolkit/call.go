package toolkit

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// call is a request that is for one of the servers.
type call struct {
	*request // that the client has made

	next    caddyhttp.Handler
	body    []byte            // as the server is sent it
	name    string            // of the item that is called, as the server knows it
	speaks  revision.Revision // at which the server is asked
	number  []byte            // the request's id at a legacy server; nil: the server gets the client's id
	waits   *session.Call     // what can be cancelled; nil: nothing
	asked   bool              // the server has been sent something
	renewed bool              // the guard's credential has been
}

// attempt returns one more time that the server is asked. again says that it has lost a session before.
func (c *call) attempt(at place, again bool) *attempt {
	return &attempt{call: c, place: at, again: again}
}

// called has the server's feeds look for what a call may have changed, as not all servers
// announce that; also for what the client may not have known, if the call was refused, and
// whether the server speaks the revision still.
func (c *call) called(a *answer) {
	code := 0
	if response, err := message.ParseResponse(a.beginning); err == nil && response.Error != nil {
		code = response.Error.Code
	}
	if c.speaks.Era() == revision.Modern && c.isOfOtherEra(a.status, code) {
		if f := c.server.Feeds.Of(c.speaks); f != nil {
			f.SuspectSession()
		}
	}
	if c.in.Method != "tools/call" {
		return
	}
	feeds, lists := c.server.Feeds.All(), c.server.Cache
	if code == jsonrpc.InvalidParams || code == jsonrpc.HeaderMismatch {
		c.server.Observer.Noticed(revision.SetOf(revision.Tools), outcome.FromCall)
		for _, f := range feeds {
			f.List(revision.Tools).Misled(lists.Suspect(revision.Tools))
		}
	}
	if c.server.ReadOnly(c.speaks)[c.name] {
		return
	}
	for _, f := range feeds {
		for _, k := range revision.Kinds() {
			f.List(k).Called(lists.Suspect(k))
		}
	}
}

// isOfOtherEra reports whether a modern server's refusal may come of its not being one any
// more: older ones refuse what has no session, or their methods are others. Who has no
// completion says so that way, too.
func (c *call) isOfOtherEra(status, code int) bool {
	switch code {
	case jsonrpc.InvalidParams, jsonrpc.HeaderMismatch, jsonrpc.MissingCapability, jsonrpc.InternalError:
		return false
	case jsonrpc.MethodNotFound:
		return c.in.Method != "completion/complete"
	}
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}
