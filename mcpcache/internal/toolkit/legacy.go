package toolkit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// isLegacy reports whether a message is one of a legacy client: it names no revision in its
// _meta, nor a modern or unknown one in its header.
func (q *request) isLegacy() bool {
	if q.in.Message.Meta.Revision != nil {
		return false
	}
	if q.in.Method == "initialize" {
		return true
	}
	_, legacy := inbound.LegacyRevision(q.r.Header)
	return legacy
}

// legacy answers a message of a legacy client.
func (q *request) legacy(next caddyhttp.Handler) error {
	q.at = revision.LatestLegacy
	if f := q.admit(); f != nil {
		return q.fail(f)
	}
	if q.in.Method == "initialize" && q.in.Message.ID != nil {
		return q.initialize()
	}
	if f := q.resume(); f != nil {
		return q.fail(f)
	}
	if q.in.Message.ID == nil || q.in.Message.Method == nil {
		return q.notified(next)
	}
	switch q.in.Method {
	case "ping":
		return q.result([]byte("{}"))
	case "logging/setLevel":
		return q.setLevel()
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return q.list()
	case "tools/call", "prompts/get", "resources/read", "completion/complete":
		return q.route(next)
	}
	return q.fail(jsonrpc.NoMethod())
}

// initialize opens a session: the id that the client is given has sealed all that has to be
// known of it (2025-11-25, "Lifecycle", "Initialization").
func (q *request) initialize() error {
	e := q.endpoint
	q.at = revision.Parse(message.StringAt(q.in.Body.Bytes, "params", "protocolVersion"))
	if q.at == revision.Unknown || q.at.Era() != revision.Legacy {
		q.at = revision.LatestLegacy
	}
	client, err := session.New(q.in.Body.Bytes, q.at, q.now.Add(e.Settings.SessionTTL))
	if err != nil {
		return q.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, err.Error()))
	}
	q.awaitServers(e.servers)
	q.awaitSealer(e.Settings.Gate)
	q.w.Header()["Mcp-Session-Id"] = []string{client.Seal(e.Settings.Sealer(), q.principal())}
	return q.result(e.catalog.Initialize(q.at, e.described()))
}

// described returns what the servers have said of themselves to the legacy feeds, by their
// numbers: nothing of those that may say something else to the caller.
func (e *Endpoint) described() [][]byte {
	results := make([][]byte, len(e.servers))
	for i, s := range e.servers {
		if f := s.feed(revision.LatestLegacy); f != nil && f.Server() != nil && !s.Credentials.isPersonal() {
			results[i] = f.Server().Result
		}
	}
	return results
}

// principal returns whose a session is: of this toolkit, and of the user whom handlers in
// front have found out, if any. It is of no use to anybody else, nor elsewhere.
func (q *request) principal() string { return q.endpoint.Settings.Name + "\n" + q.user() }

// user returns who handlers in front have found out that the client is; "" if they have not.
func (q *request) user() string {
	replacer, ok := q.r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	user, _ := replacer.GetString("http.auth.user.id")
	return user
}

// secretsWithin is how long a request waits for what opens the ids from before a restart or
// reload.
const secretsWithin = 5 * time.Second

// awaitSealer waits for the secrets of sessions during the first attempt to load them, for so long at most. It
// reports whether the secrets are there.
func (q *request) awaitSealer(most time.Duration) bool {
	ctx, cancel := context.WithTimeout(q.r.Context(), most)
	defer cancel()
	settings := &q.endpoint.Settings
	select {
	case <-settings.Settled:
	case <-settings.Tried:
	case <-ctx.Done():
	}
	select {
	case <-settings.Settled:
		return true
	default:
		return false
	}
}

// resume finds out which session the request is in.
func (q *request) resume() *jsonrpc.Problem {
	q.at = revision.LatestLegacy
	ids := q.r.Header["Mcp-Session-Id"]
	if len(ids) != 1 || ids[0] == "" {
		return jsonrpc.Invalid(jsonrpc.InvalidRequest, "Mcp-Session-Id is missing, and _meta names no revision: begin with initialize, or with server/discover")
	}
	e, over := q.endpoint, jsonrpc.Refused(http.StatusNotFound, "Session not found: open a new one with initialize")
	client, err := session.Open(e.Settings.Sealer(), ids[0], q.principal(), q.now)
	if errors.Is(err, seal.ErrForeign) { // perhaps for now
		if !q.awaitSealer(secretsWithin) {
			q.w.Header()["Retry-After"] = []string{"1"}
			return jsonrpc.Failed(http.StatusServiceUnavailable, "what opens the session has not been loaded yet: try again")
		}
		client, err = session.Open(e.Settings.Sealer(), ids[0], q.principal(), q.now)
	}
	if err != nil || e.Settings.Sessions.Ended(client.ID) {
		return over
	}
	q.client, q.at = &client, client.Revision
	return nil
}

// endSession ends a session (2025-11-25, "Streamable HTTP", "Session Management" 5).
func (q *request) endSession() error {
	if f := q.resume(); f != nil {
		return q.fail(f)
	}
	q.endpoint.endSession(q.client.ID)
	q.setOwnHeader()
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// endSession ends the session of a client for good.
func (e *Endpoint) endSession(id session.ID) {
	e.Settings.Sessions.End(id)
	e.Settings.Broker.EndSession(id)
}

// setOwnHeader fills in the header of an answer that the toolkit gives itself and that is no list.
func (q *request) setOwnHeader() {
	h := q.w.Header()
	h["Cache-Status"] = []string{q.endpoint.status.Name + statusOwn}
	q.AllowPage(h)
}

// result answers with a result.
func (q *request) result(result []byte) error {
	body := slices.Concat(message.AppendPrefix(nil, q.in.Message.ID, -1, false), result[1:], []byte("}"))
	h, contentType := q.w.Header(), "application/json"
	if stream, _ := inbound.Accepts(q.r.Header["Accept"]); stream {
		contentType = "text/event-stream"
		h["Cache-Control"] = []string{"no-cache"}
		body = append(sse.AppendData([]byte(sse.Start), body), sse.End...)
	}
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	q.setOwnHeader()
	_, err := q.w.Write(body)
	return err
}

// setLevel remembers which log messages the client wants. Servers are told of it.
func (q *request) setLevel() error {
	level := message.StringAt(q.in.Body.Bytes, "params", "level")
	if !slices.Contains(message.LogLevels, level) {
		return q.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, "level is none of "+strings.Join(message.LogLevels, ", ")))
	}
	s, f := q.use(q.client)
	if f != nil {
		return q.fail(f)
	}
	defer s.Leave()
	s.SetLevel(level)
	return q.result([]byte("{}"))
}

// notified takes a notification of a client, or an answer. Servers do not ask clients, and of
// notifications they need the end of a request that they are working on.
func (q *request) notified(next caddyhttp.Handler) error {
	if q.in.Method == "notifications/cancelled" {
		if id, ok := message.ValueAt(q.in.Body.Bytes, "params", "requestId"); ok {
			if o := q.endpoint.Settings.Sessions.Cancel(q.client.ID, id); o != nil {
				(&call{request: q, next: next, speaks: revision.LatestLegacy}).cancel(o, q.in.Body.Bytes)
			}
		}
	}
	q.setOwnHeader()
	q.w.WriteHeader(http.StatusAccepted)
	return nil
}

// use returns a session's place in the table. It has to be left.
func (q *request) use(of *session.Claims) (*session.Entry, *jsonrpc.Problem) {
	s, err := q.endpoint.Settings.Sessions.Use(of.ID, of.Expires)
	switch {
	case errors.Is(err, session.ErrEnded):
		return nil, ended
	case err != nil:
		q.w.Header()["Retry-After"] = []string{"1"}
		return nil, jsonrpc.Failed(http.StatusServiceUnavailable, "there are as many sessions in use as max_sessions allows: try again")
	}
	return s, nil
}
