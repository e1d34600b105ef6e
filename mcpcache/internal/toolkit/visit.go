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

// What Cache-Status says of a visit besides whether the list is a hit. What it can say is in
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

func newVisit(e *Endpoint, w http.ResponseWriter, r *http.Request) *request {
	// Before fields are removed: what a handler in front of us has set for rules, a client must
	// not take away by naming it in Connection.
	views := e.viewsFor(r)
	header.RemoveConnectionFields(r.Header)
	now := time.Now()
	v := &request{
		viewer: viewer{endpoint: e, r: r, views: views, arrived: now, now: now}, w: w, in: inbound.Request{Share: e.cache.Work().Share()},
	}
	if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(v.placeholder)
	}
	return v
}

// done reports what has become of the request.
func (v *request) done() {
	v.in.Release()
	v.took = time.Since(v.arrived)
	a := answered{v}
	v.endpoint.Observer.Answered(a)
	if v.server != nil {
		v.server.Observer.Answered(a)
	}
	if c := v.endpoint.Logger.Check(zapcore.DebugLevel, "request decided"); c != nil {
		c.Write(zap.String("method", outcome.Methods[outcome.LabelOf(v.r.Method, v.in.Method)]), zap.Stringer("outcome", v.outcome),
			zap.String("server", a.Server()), zap.Stringer("revision", v.at), zap.Duration("took", v.took))
	}
}

// answered is a visit that is over, an [outcome.Answered].
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
func (v *request) placeholder(key string) (any, bool) { return outcome.Placeholder(key, answered{v}) }

// post answers a message.
func (v *request) post(next caddyhttp.Handler) error {
	if !inbound.PlainJSON(v.r.Header) {
		return v.fail(jsonrpc.Refused(http.StatusUnsupportedMediaType, "the request has to be plain JSON in UTF-8: Content-Type: application/json, without Content-Encoding"))
	}
	if f, err := v.read(); err != nil || f != nil {
		if f != nil {
			return v.fail(f)
		}
		return err
	}
	if f := v.decode(); f != nil {
		return v.fail(f)
	}
	if v.isLegacy() {
		return v.legacy(next)
	}
	if v.in.Message.Method == nil {
		return v.fail(jsonrpc.Invalid(jsonrpc.InvalidRequest, "no request of a server waits for an answer"))
	}
	if v.in.Message.ID == nil {
		// Of notifications, a modern client has none that the servers would need.
		v.ownSession()
		v.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if f := v.check(); f != nil {
		return v.fail(f)
	}
	if f := v.admit(); f != nil {
		return v.fail(f)
	}
	switch v.in.Method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover":
		return v.list()
	case "tools/call", "prompts/get", "resources/read", "completion/complete":
		return v.route(next)
	case "subscriptions/listen":
		return v.listen()
	}
	return v.fail(jsonrpc.NoMethod())
}

// read reads the whole body, up to max_call. The door lets the caller of a long one in before that.
func (v *request) read() (*jsonrpc.Problem, error) {
	s := &v.endpoint.Settings
	if v.r.ContentLength <= s.MaxCall { // else there is no need to begin
		if err := v.in.ReadBeginning(v.r, s.MaxRequest); err != nil {
			return nil, site.Unreadable(err)
		}
		if f := v.admitBeforeLong(); f != nil {
			return f, nil
		}
	}
	switch d, err := v.in.ReadRest(v.w, v.r, s.MaxCall); {
	case err != nil:
		return nil, site.Unreadable(err)
	case d == inbound.NoRoom:
		return v.noRoom("there is no memory left for a request of that size: try again"), nil
	case d == inbound.TooLarge:
		return jsonrpc.Refused(http.StatusRequestEntityTooLarge, "the request is larger than max_call, and the server that it is for has to be found out"), nil
	}
	return nil, nil
}

// noRoom is the refusal of what there is no memory for now.
func (v *request) noRoom(text string) *jsonrpc.Problem {
	v.w.Header()["Retry-After"] = []string{"1"}
	return jsonrpc.Failed(http.StatusServiceUnavailable, text)
}

// decode takes the message apart.
func (v *request) decode() *jsonrpc.Problem {
	if v.in.Recall(&v.endpoint.requests) {
		return nil
	}
	switch d, err := v.in.Decode(&v.endpoint.requests); d {
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
func (v *request) check() *jsonrpc.Problem {
	said := v.in.Message.Meta.Revision
	named := v.r.Header["Mcp-Protocol-Version"]
	v.at = revision.Parse(string(said))
	switch {
	case said == nil && len(named) == 1 && named[0] != revision.LatestModern.String():
		return jsonrpc.Unsupported(named[0], supported...)
	case said != nil && v.at != revision.LatestModern:
		return jsonrpc.Unsupported(string(said), supported...)
	}
	return v.in.Refusal(v.in.Mismatch(v.r.Header))
}

// AllowPage implements [reply.Asker]: pages of the origins that are let in may read the
// answer. If the site itself says who may, pages still need the header of a session, which the site
// does not know of.
func (v *request) AllowPage(h http.Header) {
	page := v.r.Header["Origin"]
	if len(page) != 1 {
		return
	}
	const name, exposed = "Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate"
	if present := h[name]; present == nil {
		v.values.Set(h, name, exposed)
	} else if !slices.Contains(present, exposed) {
		h[name] = append(slices.Clip(present), exposed)
	}
	if h["Access-Control-Allow-Origin"] != nil || !v.endpoint.Settings.Origins.Allows(page[0]) {
		return
	}
	v.values.Set(h, "Access-Control-Allow-Origin", page[0])
	v.values.Vary(h, "Origin")
}

// preflight tells a page of an origin that is let in what it may send (Fetch, "CORS
// protocol").
func (v *request) preflight() error {
	h := v.w.Header()
	v.AllowPage(h)
	if h["Access-Control-Allow-Origin"] != nil {
		h["Access-Control-Allow-Methods"] = []string{allowed}
		if asked := v.r.Header["Access-Control-Request-Headers"]; asked != nil {
			h["Access-Control-Allow-Headers"] = []string{strings.Join(asked, ", ")}
		}
		h["Access-Control-Max-Age"] = []string{"600"}
	}
	h["Allow"] = []string{allowed}
	v.w.WriteHeader(http.StatusNoContent)
	return nil
}
