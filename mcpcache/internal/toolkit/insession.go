package toolkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
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
func (v *visit) isCancelled() bool { return v.waits != nil && v.waits.Cancelled() }

// callInSession hands a request to its server in the session that is open for the client with
// that one. If the server has lost it, and cannot have done what was asked, the request is sent once more in
// another. It is [errGivesID], and nothing is answered, if there is no such session for many clients.
func (v *visit) callInSession(next caddyhttp.Handler, s *session.Session, body []byte, name string) error {
	ctx, cancel := context.WithCancel(v.r.Context())
	defer cancel()
	v.waits = s.Begin(v.sentID(), cancel)
	defer v.gone(next)
	for v.again = false; ; v.again = true {
		o, err := s.With(ctx, v.endpoint.sessions(v.server, v.as, v.presents(v.server)))
		switch {
		case v.isCancelled() || err == nil && !v.waits.Send(o):
			return v.fail(cancelled)
		case errors.Is(err, session.ErrEnded) && v.client != nil:
			return v.fail(ended)
		case errors.Is(err, errGivesID):
			return err
		case err != nil && v.r.Context().Err() != nil:
			return nil // nobody waits for it any more
		case err != nil:
			return v.fail(v.notOpened(err))
		}
		v.opened, v.within, v.lost, v.checked = o, s, false, false
		if err = v.call(next, body, name); !v.lost {
			return err
		}
		if v.server.EndsSessions {
			return v.fail(v.lostFor())
		}
		v.waits.Send(nil)
	}
}

// sentID returns the id of the request that the server is sent.
func (v *visit) sentID() []byte {
	if v.number != nil {
		return v.number
	}
	return v.in.Message.ID
}

// gone ends the wait for an answer, also if reverse_proxy aborts. A legacy client that gives
// up may say so later; a modern one does by going away (2026-07-28, "Streamable HTTP",
// "Cancellation").
func (v *visit) gone(next caddyhttp.Handler) {
	left := v.r.Context().Err() != nil
	v.waits.Done(!left || v.client == nil)
	if left && v.client == nil && v.opened != nil {
		v.cancel(next, v.opened, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, v.number))
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
func (e *Endpoint) sessions(s *Server, c *session.Client, caller feed.Caller) session.Server {
	return session.Server{
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
func (v *visit) notOpened(err error) *jsonrpc.Problem {
	v.endpoint.note(v.server, notOpening, err)
	if status := statusOf(err); status != nil {
		if f := v.turnedAway(v.server, err); f != nil {
			return f
		}
		return v.server.refusing(status.Status)
	}
	if client.IsAnswer(err) {
		return jsonrpc.Failed(http.StatusBadGateway, fmt.Sprintf("the MCP server %q does not open a session", v.server.Name))
	}
	return v.server.doesNotAnswer(err)
}

// inSession fills in the header of a request in a session with a server.
func inSession(h http.Header, o *session.Opened) {
	if o.ID != "" {
		h["Mcp-Session-Id"] = []string{o.ID}
	}
	h["Mcp-Protocol-Version"] = []string{o.Session.Revision().String()}
}

// cancelWithin is how long a server may take to acknowledge that a request is cancelled.
const cancelWithin = 5 * time.Second

// cancel tells the server that works on a request of the client that nobody waits for it, with
// that notification. One without sessions could take it for another client's request.
func (v *visit) cancel(next caddyhttp.Handler, o *session.Opened, notification []byte) {
	if o.ID == "" {
		return
	}
	for _, s := range v.endpoint.servers {
		if s.Name == o.Server {
			v.server, v.opened = s, o
		}
	}
	if v.server == nil { // it is gone since a reload
		return
	}
	r := v.outgoing(notification, "")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), cancelWithin)
	defer cancel()
	r = r.WithContext(ctx)
	defer func() {
		p := recover()
		if aborted, _ := p.(error); p != nil && !errors.Is(aborted, http.ErrAbortHandler) { // so reverse_proxy gives up
			panic(p)
		}
	}()
	err := v.server.authorize(r)
	if err == nil {
		err = v.server.Upstream.ServeHTTP(discard{}, r, next)
	}
	if err != nil {
		v.endpoint.Logger.Debug("server was not told of a cancellation", zap.String("server", v.server.Name), zap.Error(err))
	}
}

// discard is the writer of an answer that nobody needs.
type discard struct{}

func (discard) Header() http.Header         { return make(http.Header) }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }
