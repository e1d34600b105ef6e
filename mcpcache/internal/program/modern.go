package program

import (
	"bytes"
	"errors"
	"net/http"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// modern is the one process for all requests without a session. What is told apart by them is
// that process's: a process is no conversation (2026-07-28, "Base Protocol", "Statelessness").
type modern struct {
	slot *processSlot
	era  era

	mu                sync.Mutex
	listSubscriptions map[*listSubscription]struct{}
}

// alone reports whether the program is not to have sessions.
func (m *modern) alone() bool { return m.era.fixed && m.era.is(isModern) }

const noSessions = "this server has no sessions"

// refuseSession answers a client that has a session, or wants one.
func (m *modern) refuseSession(r *http.Request, from *inbound.Request) *http.Response {
	request := &from.Message
	if string(request.Method) != "initialize" {
		return refuse(r, request.ID, jsonrpc.Refused(http.StatusBadRequest, noSessions))
	}
	requested := message.StringAt(from.Body.Bytes, "params", "protocolVersion")
	return refuse(r, request.ID, jsonrpc.Unsupported(requested, revision.LatestModern.String()))
}

// handleRequest implements [owner].
func (*modern) handleRequest(c *child, _ []byte, e message.Envelope) {
	c.refuse(e, "a server sends no requests at this revision")
}

// handleNotification implements [owner]. A message of a subscription has its id.
func (m *modern) handleNotification(c *child, line []byte, method string) {
	switch method {
	case "notifications/cancelled":
		if asked := c.subscription(line, "params", "requestId"); asked != nil {
			c.leave(asked)
		}
		return
	case "notifications/message":
		if asked := c.logs(); asked != nil {
			asked.answer.put(line)
		}
		return
	}
	path := []string{"params", "_meta", message.MetaSubscription}
	asked := c.subscription(line, path...)
	if asked == nil || method == sse.Acknowledged && asked.acknowledged.Swap(true) {
		return
	}
	if told, err := message.WithValue(line, asked.id, path...); err != nil || !asked.answer.put(told) {
		c.leave(asked) // its client subscribes again, and asks for what it has missed
	}
}

// subscription returns the call that is a subscription and whose id of ours is at a path.
func (c *child) subscription(line []byte, path ...string) *call {
	id, _ := message.ValueAt(line, path...)
	number, ok := message.Number(id)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if asked := c.calls[number]; asked != nil && asked.subscribes {
		return asked
	}
	return nil
}

// logs returns the only open call of the process, if that call and no other one has asked the process for log messages.
// Otherwise it returns nil. A log message names no call, and a program may write one after the call's answer.
func (c *child) logs() (only *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.logged > 1 {
		return nil
	}
	for _, asked := range c.calls {
		switch {
		case asked.subscribes: // it makes none
		case only != nil, !asked.logs, !asked.streams:
			return nil
		default:
			only = asked
		}
	}
	return only
}

// post takes a request of a client without a session.
func (m *modern) post(r *http.Request, from *inbound.Request) (*http.Response, error) {
	body, request := from.Body.Bytes, &from.Message
	switch {
	case m.era.is(isLegacy):
		return refuse(r, request.ID, jsonrpc.Refused(http.StatusBadRequest, notModern)), nil
	case request.Method == nil:
		return refuse(r, request.ID, jsonrpc.Refused(http.StatusBadRequest, "a client sends no responses at this revision")), nil
	case request.ID == nil: // cancellation is the end of a connection here, so there is nothing to be said
		return answer(r, http.StatusAccepted, nil), nil
	}
	if refused := m.refuses(r, from); refused != nil {
		return refused, nil
	}
	lazy := m.slot.program.limits.Load().Lazy
	subscribes := string(request.Method) == "subscriptions/listen"
	discovers := string(request.Method) == revision.Discover.Method()
	switch {
	case subscribes && !takesStream(r):
		return refuse(r, request.ID, jsonrpc.Refused(http.StatusNotAcceptable, needsStream)), nil
	case discovers && lazy && m.slot.asleep():
		if said := m.recorded(body); said != nil {
			return answer(r, http.StatusOK, result(request.ID, said)), nil
		}
	}
	asked := func() *call {
		asked := m.slot.program.newCall(r, from)
		asked.modern, asked.subscribes = true, subscribes
		_, asked.logs = message.ValueAt(body, "params", "_meta", message.MetaLogLevel)
		if discovers {
			asked.answered = func(line []byte) { m.record(body, line) }
		}
		return asked
	}
	var res *http.Response
	var err error
	if lists := listsOf(body); subscribes && lazy && lists != nil && len(body) <= maxRemembered {
		res, err = m.hold(r, &listSubscription{call: asked(), request: bytes.Clone(body), lists: lists})
	} else {
		res, err = m.slot.callProcess(r, from, asked, func() error { return nil })
	}
	switch {
	case err == nil || r.Context().Err() != nil:
		return res, err
	case errors.Is(err, errLegacy):
		return refuse(r, request.ID, jsonrpc.Refused(http.StatusBadRequest, notModern)), nil
	}
	return m.slot.program.unanswered(r, request, err), nil
}

// refuses checks what a server of Streamable HTTP has to check of a request (2026-07-28,
// "Streamable HTTP", "Request Metadata"). It returns nil if all is right.
func (m *modern) refuses(r *http.Request, from *inbound.Request) *http.Response {
	id := from.Message.ID
	if d := from.Mismatch(r.Header); d != inbound.None {
		return refuse(r, id, from.Refusal(d))
	}
	switch from.Method {
	case "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		// Of a session, which a program that speaks both eras might take it for.
		return refuse(r, id, jsonrpc.Invalid(jsonrpc.MethodNotFound, "there is no such method at this revision"))
	}
	if member, named := message.NamedInHeader(from.Method); named {
		if name := message.StringAt(from.Body.Bytes, "params", member); !inbound.NameIs(r.Header, name) {
			return refuse(r, id, inbound.OtherName(member, name))
		}
	}
	return nil
}

// statusOf returns the status of an answer without a session (2026-07-28, "Streamable HTTP").
func statusOf(line []byte) int {
	response, err := message.ParseResponse(line)
	if err != nil || response.Error == nil {
		return http.StatusOK
	}
	return jsonrpc.StatusOf(response.Error.Code)
}
