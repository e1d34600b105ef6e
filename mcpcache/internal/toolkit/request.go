package toolkit

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/site"
)

// request is one request to the endpoint.
type request struct {
	viewer

	w  http.ResponseWriter
	in inbound.Request // what has been read of it

	// What became of it, for metrics, logs and placeholders.
	outcome outcome.Outcome
	kind    revision.Kind
	server  *Server // that it was routed to
	tool    string
	took    time.Duration

	client *session.Claims // the session of a legacy client; nil: it is in none

	status string        // what Cache-Status says besides the name
	left   time.Duration // of the freshness of a list
	values header.Values
}

// What Cache-Status says of a request besides whether the list is a hit. What it can say is in
// the documentation.
const (
	statusOrigin  = "; detail=origin"
	statusRefused = "; detail=refused"
	statusPartial = "; detail=partial"
	statusStale   = "; detail=stale"
	statusDenied  = "; detail=denied"
	statusRouted  = "; fwd=bypass; detail=routed"
	statusOwn     = "; detail=own"
	// Said of requests whose caller the door does not let in.
	statusAdmission = "; fwd=bypass; detail=admission"
)

func newRequest(e *Endpoint, w http.ResponseWriter, r *http.Request) *request {
	// Before fields are removed: what a handler in front of us has set for rules, a client must
	// not take away by naming it in Connection.
	views := e.viewsFor(r)
	header.RemoveConnectionFields(r.Header)
	now := time.Now()
	q := &request{
		viewer: viewer{endpoint: e, r: r, views: views, arrived: now, now: now}, w: w, in: inbound.Request{Share: e.cache.Work().Share()},
	}
	if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(q.placeholder)
	}
	return q
}

// done reports what has become of the request.
func (q *request) done() {
	q.in.Release()
	q.took = time.Since(q.arrived)
	a := answered{q}
	q.endpoint.Observer.Answered(a)
	if q.server != nil {
		q.server.Observer.Answered(a)
	}
	if c := q.endpoint.Logger.Check(zapcore.DebugLevel, "request decided"); c != nil {
		c.Write(zap.String("method", outcome.Methods[outcome.LabelOf(q.r.Method, q.in.Method)]), zap.Stringer("outcome", q.outcome),
			zap.String("server", a.Server()), zap.Stringer("revision", q.at), zap.Duration("took", q.took))
	}
}

// answered is a request that is over, an [outcome.Answered].
type answered struct{ *request }

func (a answered) Context() context.Context    { return a.r.Context() }
func (a answered) Method() int                 { return outcome.LabelOf(a.r.Method, a.in.Method) }
func (a answered) MethodName() string          { return a.in.Method }
func (a answered) Outcome() outcome.Outcome    { return a.outcome }
func (a answered) Revision() revision.Revision { return a.at }
func (a answered) Kind() revision.Kind         { return a.kind }
func (a answered) Tool() string                { return a.tool }
func (a answered) Took() time.Duration         { return a.took }

// Server implements [outcome.Answered].
func (a answered) Server() string {
	if a.server == nil {
		return ""
	}
	return a.server.Name
}

// placeholder is a [caddy.ReplacerFunc].
func (q *request) placeholder(key string) (any, bool) { return outcome.Placeholder(key, answered{q}) }

// post answers a message.
func (q *request) post(next caddyhttp.Handler) error {
	if !inbound.PlainJSON(q.r.Header) {
		return q.fail(jsonrpc.Refused(http.StatusUnsupportedMediaType, "the request has to be plain JSON in UTF-8: Content-Type: application/json, without Content-Encoding"))
	}
	if f, err := q.read(); err != nil || f != nil {
		if f != nil {
			return q.fail(f)
		}
		return err
	}
	if f := q.decode(); f != nil {
		return q.fail(f)
	}
	if q.isLegacy() {
		return q.legacy(next)
	}
	if q.in.Message.Method == nil {
		return q.fail(jsonrpc.Invalid(jsonrpc.InvalidRequest, "no request of a server waits for an answer"))
	}
	if q.in.Message.ID == nil {
		// Of notifications, a modern client has none that the servers would need.
		q.setOwnHeader()
		q.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if f := q.check(); f != nil {
		return q.fail(f)
	}
	if f := q.admit(); f != nil {
		return q.fail(f)
	}
	switch q.in.Method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover":
		return q.list()
	case "tools/call", "prompts/get", "resources/read", "completion/complete":
		return q.route(next)
	case "subscriptions/listen":
		return q.listen()
	}
	return q.fail(jsonrpc.NoMethod())
}

// read reads the whole body, up to max_call. The door lets the caller of a long one in before that.
func (q *request) read() (*jsonrpc.Problem, error) {
	s := &q.endpoint.Settings
	if q.r.ContentLength <= s.MaxCall { // else there is no need to begin
		if err := q.in.ReadBeginning(q.r, s.MaxRequest); err != nil {
			return nil, site.Unreadable(err)
		}
		if f := q.admitBeforeLong(); f != nil {
			return f, nil
		}
	}
	switch d, err := q.in.ReadRest(q.w, q.r, s.MaxCall); {
	case err != nil:
		return nil, site.Unreadable(err)
	case d == inbound.NoRoom:
		return q.noRoom("there is no memory left for a request of that size: try again"), nil
	case d == inbound.TooLarge:
		return jsonrpc.Refused(http.StatusRequestEntityTooLarge, "the request is larger than max_call, and the server that it is for has to be found out"), nil
	}
	return nil, nil
}

// noRoom is the refusal of what there is no memory for now.
func (q *request) noRoom(text string) *jsonrpc.Problem {
	q.w.Header()["Retry-After"] = []string{"1"}
	return jsonrpc.Failed(http.StatusServiceUnavailable, text)
}

// decode takes the message apart.
func (q *request) decode() *jsonrpc.Problem {
	if q.in.Recall(&q.endpoint.requests) {
		return nil
	}
	switch d, err := q.in.Decode(&q.endpoint.requests); d {
	case inbound.None:
		return nil
	case inbound.Batch:
		return jsonrpc.Invalid(jsonrpc.InvalidRequest, "batches are not taken: send one message at a time")
	case inbound.Ambiguous:
		return jsonrpc.Invalid(jsonrpc.InvalidRequest, err.Error())
	default:
		return jsonrpc.Invalid(jsonrpc.ParseError, err.Error())
	}
}

// check finds out whether the request is a valid one of the modern era (2026-07-28,
// "Streamable HTTP", "Request Metadata"; "Versioning").
func (q *request) check() *jsonrpc.Problem {
	said := q.in.Message.Meta.Revision
	named := q.r.Header["Mcp-Protocol-Version"]
	q.at = revision.Parse(string(said))
	switch {
	case said == nil && len(named) == 1 && named[0] != revision.LatestModern.String():
		return jsonrpc.Unsupported(named[0], supported...)
	case said != nil && q.at != revision.LatestModern:
		return jsonrpc.Unsupported(string(said), supported...)
	}
	return q.in.Refusal(q.in.Mismatch(q.r.Header))
}

// AllowPage implements [reply.Asker]: pages of the origins that are let in may read the
// answer. If the site itself says who may, pages still need the header of a session, which the site
// does not know of.
func (q *request) AllowPage(h http.Header) {
	page := q.r.Header["Origin"]
	if len(page) != 1 {
		return
	}
	const name, exposed = "Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate"
	if present := h[name]; present == nil {
		q.values.Set(h, name, exposed)
	} else if !slices.Contains(present, exposed) {
		h[name] = append(slices.Clip(present), exposed)
	}
	if h["Access-Control-Allow-Origin"] != nil || !q.endpoint.Settings.Origins.Allows(page[0]) {
		return
	}
	q.values.Set(h, "Access-Control-Allow-Origin", page[0])
	q.values.Vary(h, "Origin")
}

// preflight tells a page of an origin that is let in what it may send (Fetch, "CORS
// protocol").
func (q *request) preflight() error {
	h := q.w.Header()
	q.AllowPage(h)
	if h["Access-Control-Allow-Origin"] != nil {
		h["Access-Control-Allow-Methods"] = []string{allowed}
		if asked := q.r.Header["Access-Control-Request-Headers"]; asked != nil {
			h["Access-Control-Allow-Headers"] = []string{strings.Join(asked, ", ")}
		}
		h["Access-Control-Max-Age"] = []string{"600"}
	}
	h["Allow"] = []string{allowed}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}
