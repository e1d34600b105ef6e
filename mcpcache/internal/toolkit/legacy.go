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
func (v *request) isLegacy() bool {
	if v.in.Message.Meta.Revision != nil {
		return false
	}
	if v.in.Method == "initialize" {
		return true
	}
	_, legacy := inbound.LegacyRevision(v.r.Header)
	return legacy
}

// legacy answers a message of a legacy client.
func (v *request) legacy(next caddyhttp.Handler) error {
	v.at = revision.LatestLegacy
	if f := v.admit(); f != nil {
		return v.fail(f)
	}
	if v.in.Method == "initialize" && v.in.Message.ID != nil {
		return v.initialize()
	}
	if f := v.resume(); f != nil {
		return v.fail(f)
	}
	if v.in.Message.ID == nil || v.in.Message.Method == nil {
		return v.notified(next)
	}
	switch v.in.Method {
	case "ping":
		return v.result([]byte("{}"))
	case "logging/setLevel":
		return v.setLevel()
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return v.list()
	case "tools/call", "prompts/get", "resources/read", "completion/complete":
		return v.route(next)
	}
	return v.fail(jsonrpc.NoMethod())
}

// initialize opens a session: the id that the client is given has sealed all that has to be
// known of it (2025-11-25, "Lifecycle", "Initialization").
func (v *request) initialize() error {
	e := v.endpoint
	v.at = revision.Parse(message.StringAt(v.in.Body.Bytes, "params", "protocolVersion"))
	if v.at == revision.Unknown || v.at.Era() != revision.Legacy {
		v.at = revision.LatestLegacy
	}
	client, err := session.New(v.in.Body.Bytes, v.at, v.now.Add(e.Settings.SessionTTL))
	if err != nil {
		return v.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, err.Error()))
	}
	v.awaitServers(e.servers)
	v.awaitSealer(e.Settings.Gate)
	v.w.Header()["Mcp-Session-Id"] = []string{client.Seal(e.Settings.Sealer(), v.principal())}
	return v.result(e.catalog.Initialize(v.at, e.described()))
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
func (v *request) principal() string { return v.endpoint.Settings.Name + "\n" + v.user() }

// user returns who handlers in front have found out that the client is; "" if they have not.
func (v *request) user() string {
	replacer, ok := v.r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
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
func (v *request) awaitSealer(most time.Duration) bool {
	ctx, cancel := context.WithTimeout(v.r.Context(), most)
	defer cancel()
	settings := &v.endpoint.Settings
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
func (v *request) resume() *jsonrpc.Problem {
	v.at = revision.LatestLegacy
	ids := v.r.Header["Mcp-Session-Id"]
	if len(ids) != 1 || ids[0] == "" {
		return jsonrpc.Invalid(jsonrpc.InvalidRequest, "Mcp-Session-Id is missing, and _meta names no revision: begin with initialize, or with server/discover")
	}
	e, over := v.endpoint, jsonrpc.Refused(http.StatusNotFound, "Session not found: open a new one with initialize")
	client, err := session.Open(e.Settings.Sealer(), ids[0], v.principal(), v.now)
	if errors.Is(err, seal.ErrForeign) { // perhaps for now
		if !v.awaitSealer(secretsWithin) {
			v.w.Header()["Retry-After"] = []string{"1"}
			return jsonrpc.Failed(http.StatusServiceUnavailable, "what opens the session has not been loaded yet: try again")
		}
		client, err = session.Open(e.Settings.Sealer(), ids[0], v.principal(), v.now)
	}
	if err != nil || e.Settings.Sessions.Ended(client.ID) {
		return over
	}
	v.client, v.at = &client, client.Revision
	return nil
}

// endSession ends a session (2025-11-25, "Streamable HTTP", "Session Management" 5).
func (v *request) endSession() error {
	if f := v.resume(); f != nil {
		return v.fail(f)
	}
	v.endpoint.endSession(v.client.ID)
	v.ownSession()
	v.w.WriteHeader(http.StatusNoContent)
	return nil
}

// endSession ends the session of a client for good.
func (e *Endpoint) endSession(id session.ID) {
	e.Settings.Sessions.End(id)
	e.Settings.Broker.EndSession(id)
}

// ownSession fills in the header of an answer of ours that is no list.
func (v *request) ownSession() {
	h := v.w.Header()
	h["Cache-Status"] = []string{v.endpoint.status.Name + statusOwn}
	v.AllowPage(h)
}

// result answers with a result.
func (v *request) result(result []byte) error {
	body := slices.Concat(message.AppendPrefix(nil, v.in.Message.ID, -1, false), result[1:], []byte("}"))
	h, contentType := v.w.Header(), "application/json"
	if stream, _ := inbound.Accepts(v.r.Header["Accept"]); stream {
		contentType = "text/event-stream"
		h["Cache-Control"] = []string{"no-cache"}
		body = append(sse.AppendData([]byte(sse.Start), body), sse.End...)
	}
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	v.ownSession()
	_, err := v.w.Write(body)
	return err
}

// setLevel remembers which log messages the client wants. Servers are told of it.
func (v *request) setLevel() error {
	level := message.StringAt(v.in.Body.Bytes, "params", "level")
	if !slices.Contains(message.LogLevels, level) {
		return v.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, "level is none of "+strings.Join(message.LogLevels, ", ")))
	}
	s, f := v.use(v.client)
	if f != nil {
		return v.fail(f)
	}
	defer s.Leave()
	s.SetLevel(level)
	return v.result([]byte("{}"))
}

// notified takes a notification of a client, or an answer. Servers do not ask clients, and of
// notifications they need the end of a request that they are working on.
func (v *request) notified(next caddyhttp.Handler) error {
	if v.in.Method == "notifications/cancelled" {
		if id, ok := message.ValueAt(v.in.Body.Bytes, "params", "requestId"); ok {
			if o := v.endpoint.Settings.Sessions.Cancel(v.client.ID, id); o != nil {
				(&call{request: v, next: next, speaks: revision.LatestLegacy}).cancel(o, v.in.Body.Bytes)
			}
		}
	}
	v.ownSession()
	v.w.WriteHeader(http.StatusAccepted)
	return nil
}

// use returns a session's place in the table. It has to be left.
func (v *request) use(of *session.Claims) (*session.Entry, *jsonrpc.Problem) {
	s, err := v.endpoint.Settings.Sessions.Use(of.ID, of.Expires)
	switch {
	case errors.Is(err, session.ErrEnded):
		return nil, ended
	case err != nil:
		v.w.Header()["Retry-After"] = []string{"1"}
		return nil, jsonrpc.Failed(http.StatusServiceUnavailable, "there are as many sessions in use as max_sessions allows: try again")
	}
	return s, nil
}
