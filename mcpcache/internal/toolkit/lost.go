package toolkit

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// mayBeLost reports whether the server may have lost the session in which it is called, and it has not been found out
// yet.
func (t *attempt) mayBeLost() bool {
	return t.opened != nil && t.opened.ID != "" && !t.again && !t.checked
}

// holds reports whether an answer is held back until it is known that it is no refusal, or what a refusal is about: the
// session, the guard's credential, or the call.
func (a *answer) holds(status int) bool {
	switch {
	case a.attempt.mayRenew(status):
		return true
	case !a.attempt.mayBeLost():
		return false
	case status == http.StatusOK:
		return header.IsJSON(a.header["Content-Type"]) && header.Coding(a.header) == ""
	}
	return status >= http.StatusBadRequest
}

// isLost finds out by a refusal that is held back whether the server has lost the session. It reports whether it has,
// and the request is to be sent once more.
func (t *attempt) isLost(a *answer) bool {
	if a.held == 0 {
		return false
	}
	response, err := message.ParseResponse(a.beginning)
	switch {
	case err != nil:
		// What may be a message all the same may say that the call was done.
		unread := header.Coding(a.header) != "" || bytes.Contains(a.beginning, []byte(`"jsonrpc"`))
		return t.renewSession(a.held, 0) && isUndone(a.held, 0) && !unread
	case response.Error == nil:
		return false // the server has done it in the session
	}
	return t.renewSession(a.held, response.Error.Code) && isUndone(a.held, response.Error.Code)
}

// suspect finds out by an error on an event stream whether the server has lost the session, before the client has the
// error: its next request is then sent in another one.
func (t *attempt) suspect(response []byte) {
	if t.mayBeLost() && message.Judge(response) == message.IsError {
		if refused, err := message.ParseResponse(response); err == nil {
			t.renewSession(http.StatusOK, refused.Error.Code)
		}
	}
}

// renewSession finds out whether the server has lost the session, if a refusal of that status and code may say that.
// Another one then takes its place. Where the client shall know, its own ends.
func (t *attempt) renewSession(status, code int) (lost bool) {
	if !t.mayBeLost() || !client.MayBeOfSession(status, code) {
		return false
	}
	if t.server.EndsSessions && t.server.Credentials.isPersonal() && (status == http.StatusUnauthorized || status == http.StatusForbidden) {
		return false // it is about the credentials: the client is to keep its session
	}
	t.checked = true
	caller := t.callerAt(t.server)
	// What the specification has servers say of an unknown session (2025-11-25, "Streamable HTTP", "Session
	// Management" 3), and what many say instead (punkpeye/mcp-proxy#108, rust-sdk#559).
	sure := status == http.StatusNotFound || status == http.StatusBadRequest || status == http.StatusUnauthorized
	gone := status == http.StatusNotFound && isUndone(status, code)
	lost = t.within.Renew(client.WithCredentials(t.r.Context(), caller.Credentials), t.opened, t.endpoint.sessions(t.server, t.as, caller), sure, gone)
	if lost && t.server.EndsSessions && t.client != nil {
		t.endpoint.endSession(t.client.ID)
	}
	return lost
}

// isUndone reports whether a server cannot have done what it has refused by that status and code of a JSON-RPC error, 0
// for none. After 5xx without a code, or another error in an answer of 200, it may have.
func isUndone(status, code int) bool {
	switch code {
	case 0:
		return status < http.StatusInternalServerError
	case jsonrpc.InvalidRequest:
		return true
	case jsonrpc.NoSession, jsonrpc.UnknownSession:
		return status >= http.StatusBadRequest
	}
	return false
}

// lostFor is the refusal of what is for a server that has lost the session, where the client
// shall know: a legacy one opens another, and with that one of the server's.
func (c *call) lostFor() *jsonrpc.Problem {
	if c.client == nil {
		return jsonrpc.Failed(http.StatusBadGateway, fmt.Sprintf("the MCP server %q has lost the session", c.server.Name))
	}
	return jsonrpc.Refused(http.StatusNotFound, "Session not found: the server has lost its own")
}
