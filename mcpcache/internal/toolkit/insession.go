package toolkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// cancelled is the refusal of a request that was cancelled.
var cancelled = jsonrpc.Refused(http.StatusOK, "the request was cancelled")

// ended is the refusal of a request in a session that the client has ended.
var ended = jsonrpc.Refused(http.StatusNotFound, "Session not found: it was ended")

// isCancelled reports whether the client has cancelled the request by a notification.
func (c *call) isCancelled() bool { return c.waits != nil && c.waits.Cancelled() }

// place is where a server is asked for a client: in a session of the table, and in the session
// with the server that is open there. The zero value is outside of any.
type place struct {
	as     *session.Claims // as whom the session with the server is opened
	within *session.Entry
	opened *session.Upstream
}

// sendInSession sends the server the request in the session that is open with it for that client. If
// the server has lost it, and cannot have done what was asked, the request is sent once more in
// another. It is [errGivesID], and nothing is answered, if there is no such session for many clients.
func (c *call) sendInSession(s *session.Entry, client *session.Claims) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	c.waits = s.Begin(c.sentID(), cancel)
	at := place{as: client, within: s}
	defer func() { c.gone(at.opened) }()
	for again := false; ; again = true {
		o, err := s.Dial(ctx, c.endpoint.sessions(c.server, client, c.callerAt(c.server)))
		switch {
		case c.isCancelled() || err == nil && !c.waits.Send(o):
			return c.fail(cancelled)
		case errors.Is(err, session.ErrEnded) && c.client != nil:
			return c.fail(ended)
		case errors.Is(err, errGivesID):
			return err
		case err != nil && c.r.Context().Err() != nil:
			return nil // nobody waits for it any more
		case err != nil:
			return c.fail(c.notOpened(err))
		}
		at.opened = o
		lost, err := c.attempt(at, again).send()
		switch {
		case !lost:
			return err
		case c.server.EndsSessions:
			return c.fail(c.lostFor())
		}
		c.waits.Send(nil)
	}
}

// sentID returns the id of the request that the server is sent.
func (c *call) sentID() []byte {
	if c.number != nil {
		return c.number
	}
	return c.in.Message.ID
}

// gone ends the wait for an answer in a session with the server, if there was one, also if reverse_proxy
// aborts. A legacy client that gives up may say so later; a modern one does by going away (2026-07-28,
// "Streamable HTTP", "Cancellation").
func (c *call) gone(o *session.Upstream) {
	left := c.r.Context().Err() != nil
	c.waits.Done(!left || c.client == nil)
	if left && c.client == nil && o != nil {
		c.cancel(o, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, c.number))
	}
}

// errGivesID says that a server gives sessions ids, so that those who are not known cannot
// share one.
var errGivesID = errors.New("the server has sessions")

// sessionKey tells the sessions with a server from those with another, and from those that
// were opened with the guard's credential before a reload, or without it: one is of no use to
// a caller of the other.
type sessionKey struct {
	of      *backend.Backend
	guarded bool
}

// sessions returns how sessions of a client with the server are opened, for that caller.
func (e *Endpoint) sessions(s *Server, c *session.Claims, caller feed.Caller) session.Dialer {
	return session.Dialer{
		Name: s.Name, Key: sessionKey{s.Backend, caller.Guarded},
		Open: func(ctx context.Context) (*client.Session, error) {
			opened, err := s.Feeds.OpenFor(ctx, min(c.Revision, s.at(c.Revision)), &client.Identity{
				Capabilities: c.Capabilities, Name: c.Name, Version: c.Version, Credentials: caller.Credentials, Guarded: caller.Guarded,
			})
			if err == nil {
				e.note(s, notOpening, nil)
			}
			if err == nil && c.Shared && opened.HasID() {
				s.Feeds.CloseFor(opened)
				return nil, errGivesID
			}
			return opened, err
		},
		End: s.Feeds.CloseFor, Ping: s.Feeds.Ping,
	}
}

// notOpened is the refusal of what is for a server that does not open a session.
func (c *call) notOpened(err error) *jsonrpc.Problem {
	c.endpoint.note(c.server, notOpening, err)
	if status := statusOf(err); status != nil {
		if f := c.rejected(c.server, err); f != nil {
			return f
		}
		return c.server.refusing(status.Status)
	}
	if client.IsAnswer(err) {
		return jsonrpc.Failed(http.StatusBadGateway, fmt.Sprintf("the MCP server %q does not open a session", c.server.Name))
	}
	return c.server.doesNotAnswer(err)
}

// inSession fills in the header of a request in a session with a server.
func inSession(h http.Header, o *session.Upstream) {
	if o.ID != "" {
		h["Mcp-Session-Id"] = []string{o.ID}
	}
	h["Mcp-Protocol-Version"] = []string{o.Session.Revision().String()}
}

// cancelWithin is how long a server may take to acknowledge that a request is cancelled.
const cancelWithin = 5 * time.Second

// cancel tells the server that works on a request of the client that nobody waits for it, with
// that notification. One without sessions could take it for another client's request.
func (c *call) cancel(o *session.Upstream, notification []byte) {
	if o.ID == "" {
		return
	}
	for _, s := range c.endpoint.servers {
		if s.Name == o.Server {
			c.server = s
		}
	}
	if c.server == nil { // it is gone since a reload
		return
	}
	c.body, c.name = notification, ""
	r := c.attempt(place{opened: o}, true).request()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), cancelWithin)
	defer cancel()
	r = r.WithContext(ctx)
	defer func() {
		p := recover()
		if aborted, _ := p.(error); p != nil && !errors.Is(aborted, http.ErrAbortHandler) { // so reverse_proxy gives up
			panic(p)
		}
	}()
	err := c.server.authorize(r)
	if err == nil {
		err = c.server.Upstream.ServeHTTP(discard{}, r, c.next)
	}
	if err != nil {
		c.endpoint.Logger.Debug("server was not told of a cancellation", zap.String("server", c.server.Name), zap.Error(err))
	}
}

// discard is the writer of an answer that nobody needs.
type discard struct{}

func (discard) Header() http.Header         { return make(http.Header) }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }
