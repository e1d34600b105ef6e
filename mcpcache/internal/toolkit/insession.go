package toolkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// callInSession hands a request to its server in the session that the client has with that
// one. If the server has lost it, another is opened, and the request sent once more: who does
// not know the session has not done anything.
func (v *visit) callInSession(next caddyhttp.Handler, body []byte, name string) error {
	s, f := v.use()
	if f != nil {
		return v.fail(*f)
	}
	defer s.Leave()
	for v.again = false; ; v.again = true {
		o, err := s.With(v.r.Context(), v.server.sessions(v.client))
		switch {
		case errors.Is(err, session.ErrEnded):
			return v.fail(refusal{http.StatusNotFound, invalidRequest, "Session not found: it was ended", nil})
		case err != nil && v.r.Context().Err() != nil:
			return nil // nobody waits for it any more
		case err != nil:
			return v.fail(v.notOpened(err))
		}
		if err := v.callOnce(next, body, name, s, o); !v.lost {
			return err
		}
		s.Forget(o)
		if v.server.EndsSessions {
			v.endpoint.Settings.Sessions.End(v.client.ID)
			return v.fail(refusal{http.StatusNotFound, invalidRequest, "Session not found: the server has lost its own", nil})
		}
	}
}

// callOnce hands the request to its server in that session.
func (v *visit) callOnce(next caddyhttp.Handler, body []byte, name string, s *session.Session, o *session.Opened) error {
	v.opened, v.lost = o, false
	done := s.Begin(v.request.ID, o)
	defer func() { done(v.r.Context().Err() == nil) }() // also if reverse_proxy aborts
	return v.call(next, body, name)
}

// sessions returns how sessions of a client with the server are opened.
func (s *Server) sessions(c *session.Client) session.Server {
	return session.Server{
		Name: s.Name, Key: s.Backend,
		Open: func(ctx context.Context) (*client.Session, error) {
			return s.Feeds.OpenFor(ctx, min(c.Revision, s.at(c.Revision)), &client.Identity{
				Capabilities: c.Capabilities, Name: c.Name, Version: c.Version,
			})
		},
		End: s.Feeds.CloseFor,
	}
}

// notOpened is the refusal of what is for a server that does not open a session.
func (v *visit) notOpened(err error) refusal {
	v.endpoint.Logger.Warn("server does not open a session for a client", zap.String("server", v.server.Name), zap.Error(err))
	status, text := http.StatusBadGateway, "does not open a session"
	if errors.Is(err, context.DeadlineExceeded) {
		status, text = http.StatusGatewayTimeout, "did not open a session in time"
	} else if client.Unreachable(err) {
		text = "cannot be reached"
	}
	return refusal{status, internalError, fmt.Sprintf("the MCP server %q %s", v.server.Name, text), nil}
}

// inSession fills in the header of a request in a session with a server.
func inSession(h http.Header, o *session.Opened) {
	if o.ID != "" {
		h["Mcp-Session-Id"] = []string{o.ID}
	}
	h["Mcp-Protocol-Version"] = []string{o.Session.Revision().String()}
}

// mayBeLost reports whether a status may say that the server does not know the session: 404
// does, as the specification has it (2025-11-25, "Streamable HTTP", "Session Management" 3).
// Servers that are made after an example of the TypeScript SDK answer 400.
func (v *visit) mayBeLost(status int) bool {
	return v.opened != nil && v.opened.ID != "" && !v.again && (status == http.StatusNotFound || status == http.StatusBadRequest)
}

// isLost reports whether the answer of such a status says so: of 400, if it is an error that
// answers no request.
func (v *visit) isLost(status int, body []byte) bool {
	if status == http.StatusNotFound {
		return true
	}
	response, err := message.ParseResponse(body)
	return err == nil && response.Error != nil && !bytes.Equal(response.ID, v.request.ID)
}

// cancelWithin is how long a server may take to acknowledge that a request is cancelled.
const cancelWithin = 5 * time.Second

// cancel tells the server that works on a request of the client that nobody waits for it.
func (v *visit) cancel(next caddyhttp.Handler, o *session.Opened) {
	for _, s := range v.endpoint.servers {
		if s.Name == o.Server {
			v.server, v.opened = s, o
		}
	}
	if v.server == nil { // it is gone since a reload
		return
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), cancelWithin)
	defer cancel()
	r := v.outgoing(v.body.Bytes, "").WithContext(ctx)
	defer func() {
		p := recover()
		if aborted, _ := p.(error); p != nil && !errors.Is(aborted, http.ErrAbortHandler) { // so reverse_proxy gives up
			panic(p)
		}
	}()
	if err := v.server.Upstream.ServeHTTP(discard{}, r, next); err != nil {
		v.endpoint.Logger.Debug("server was not told of a cancellation", zap.String("server", v.server.Name), zap.Error(err))
	}
}

// discard is the writer of an answer that nobody needs.
type discard struct{}

func (discard) Header() http.Header         { return make(http.Header) }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }
