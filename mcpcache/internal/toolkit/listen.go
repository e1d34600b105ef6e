package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/landing"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// get opens the stream on which a legacy client listens (2025-11-25, "Streamable HTTP",
// "Listening for Messages from the Server").
func (q *request) get() error {
	if landing.Is(q.r) {
		return landing.Write(q.w, q.r, q.endpoint.status.Name+statusOwn)
	}
	if slices.Equal(q.r.Header["Mcp-Protocol-Version"], []string{revision.LatestModern.String()}) {
		return q.notAllowed("clients of "+revision.LatestModern.String()+" listen by subscriptions/listen, which is a POST", http.MethodPost)
	}
	q.at = revision.LatestLegacy
	if f := q.admit(); f != nil {
		return q.fail(f)
	}
	if f := q.resume(); f != nil {
		return q.fail(f)
	}
	if accept := strings.ToLower(strings.Join(q.r.Header["Accept"], ",")); !strings.Contains(accept, "text/event-stream") && !strings.Contains(accept, "*/*") {
		return q.fail(jsonrpc.Refused(http.StatusNotAcceptable, "a GET opens an event stream: send Accept: text/event-stream"))
	}
	last := q.r.Header.Get("Last-Event-ID")
	if last != "" && !notices.IsEventID(last) {
		return q.fail(jsonrpc.Invalid(jsonrpc.InvalidRequest, "Last-Event-ID is of no stream of this endpoint: answers of servers are not resumed"))
	}
	l, f := q.listens(notices.Listening{
		Wants: revision.SetOf(notices.Kinds[:]...), Session: (*[16]byte)(&q.client.ID), Last: last,
	})
	if f != nil {
		return q.fail(f)
	}
	defer l.Close()
	s := q.openStream(l)
	// Who knows how is given an id to come back with before there is anything to be told
	// (2025-11-25, "Streamable HTTP", "Sending Messages to the Server" 6).
	if kinds, id := l.Take(); len(kinds) > 0 {
		s.notify(kinds, id)
	} else if q.at >= revision.V20251125 {
		s.write([]byte("id: " + id + "\ndata: \n\n"))
	}
	s.run()
	return nil
}

// filter says which notices a modern client wants (2026-07-28, schema,
// "SubscriptionFilter"). There are no notices of single resources yet.
type filter map[string]bool

var filterable = map[string]revision.Kind{
	"toolsListChanged": revision.Tools, "promptsListChanged": revision.Prompts, "resourcesListChanged": revision.Resources,
}

// parseFilter returns what there can be of a filter, and the kinds that it is about.
func parseFilter(raw []byte) (granted filter, kinds revision.KindSet, err error) {
	var wanted map[string]json.RawMessage
	if err = json.Unmarshal(raw, &wanted); err != nil || wanted == nil {
		return nil, 0, errors.Join(errNoFilter, err)
	}
	granted = make(filter)
	for name, k := range filterable {
		var wants bool
		if value, said := wanted[name]; said && json.Unmarshal(value, &wants) != nil {
			return nil, 0, errNoFilter
		}
		if wants {
			granted[name] = true
			kinds |= revision.SetOf(k)
		}
	}
	return granted, kinds, nil
}

var errNoFilter = errors.New("params has no notifications, which is an object of toolsListChanged, promptsListChanged and resourcesListChanged, each true or false")

// listen opens the stream on which a modern client listens (2026-07-28, "Subscriptions").
func (q *request) listen() error {
	raw, _ := message.ValueAt(q.in.Body.Bytes, "params", "notifications")
	wanted, kinds, err := parseFilter(raw)
	if err != nil {
		return q.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, err.Error()))
	}
	l, f := q.listens(notices.Listening{Wants: kinds})
	if f != nil {
		return q.fail(f)
	}
	defer l.Close()
	s := q.openStream(l)
	s.id = slices.Clone(q.in.Message.ID)
	q.in.Release()                     // the stream may be open for long
	granted, _ := json.Marshal(wanted) // booleans always marshal
	s.write(s.appendNotice(nil, sse.Acknowledged, fmt.Sprintf(`,"notifications":%s`, granted)))
	if kinds != 0 {
		s.run()
	}
	if q.r.Context().Err() == nil {
		s.write(sse.AppendEvent(nil, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","_meta":{%q:%s}}}`, s.id, message.MetaSubscription, s.id)))
	}
	return nil
}

// listens adds the client to those that listen. What it lists from now on is no older than
// what it is not told of.
func (q *request) listens(to notices.Listening) (*notices.Listener, *jsonrpc.Problem) {
	to.Era = q.at.Era()
	q.awaitServers(q.endpoint.servers)
	q.endpoint.reconcile(context.WithoutCancel(q.r.Context())) // others are told, too
	l, err := q.endpoint.Settings.Broker.Listen(to)
	if err != nil {
		q.w.Header()["Retry-After"] = []string{"1"}
		return nil, jsonrpc.Failed(http.StatusServiceUnavailable, "as many clients listen as max_sessions allows: try again")
	}
	return l, nil
}

const (
	// beat is how often a stream shows that it is still there: what lies between takes idle
	// connections for dead, often after a minute.
	beat = 25 * time.Second
	// writeWithin is how long a client may take to read something of its stream.
	writeWithin = 20 * time.Second
)

// stream is the stream on which a client gets its notices.
type stream struct {
	request  *request
	listener *notices.Listener
	control  *http.ResponseController
	id       []byte // of the subscription of a modern client, raw JSON; nil: it has none
	err      error  // why nothing more can be written
	// isOver reports, at each beat, whether the client may not listen any more.
	isOver func() bool
}

// openStream gives the client the header.
func (q *request) openStream(l *notices.Listener) *stream {
	h := q.w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = []string{"no"}
	q.setOwnHeader()
	q.w.WriteHeader(http.StatusOK)
	s := &stream{request: q, listener: l, control: http.NewResponseController(q.w), isOver: q.isRejected}
	s.write(nil)
	return s
}

// run sends the client notices until it goes away, or the stream has to end.
func (s *stream) run() {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	ctx, cancel := s.request.whileOpen()
	defer cancel()
	for s.err == nil {
		select {
		case <-s.listener.Changed():
			s.notify(s.listener.Take())
		case <-ticker.C:
			if s.isOver() {
				return
			}
			s.write([]byte(":\n\n"))
		case <-s.listener.Ended():
			return
		case <-ctx.Done():
			return
		}
	}
}

// whileOpen returns a context that ends with the request, with the client's session, or somewhat before Caddy's
// timeout for writing an answer, if there is one: after that, no end could be said.
func (q *request) whileOpen() (context.Context, context.CancelFunc) {
	ctx := q.r.Context()
	var until time.Time
	if q.client != nil {
		until = q.client.Expires
	}
	if server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); server != nil && server.WriteTimeout > 0 {
		if before := q.arrived.Add(time.Duration(server.WriteTimeout) * 9 / 10); until.IsZero() || before.Before(until) {
			until = before
		}
	}
	if until.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, until)
}

// notify sends the client a notice that those lists have changed. The last event has the id.
func (s *stream) notify(kinds []revision.Kind, id string) {
	var events []byte
	for i, k := range kinds {
		if s.id == nil && i == len(kinds)-1 {
			events = append(events, "id: "+id+"\n"...)
		}
		events = s.appendNotice(events, revision.ChangeOf(k), "")
	}
	s.write(events)
}

// appendNotice appends a notification, with further members of its params.
func (s *stream) appendNotice(dst []byte, method, members string) []byte {
	params := ""
	if s.id != nil {
		params = fmt.Sprintf(`,"params":{"_meta":{%q:%s}%s}`, message.MetaSubscription, s.id, members)
	}
	return sse.AppendEvent(dst, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q%s}`, method, params))
}

// write sends something at once.
func (s *stream) write(events []byte) {
	if s.err != nil {
		return
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(writeWithin)) // not all writers can
	if _, s.err = s.request.w.Write(events); s.err == nil {
		s.err = s.control.Flush()
	}
	_ = s.control.SetWriteDeadline(time.Time{})
}
