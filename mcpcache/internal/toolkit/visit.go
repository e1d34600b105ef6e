package toolkit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/incoming"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// visit is one request to the endpoint.
type visit struct {
	endpoint *Endpoint
	w        http.ResponseWriter
	r        *http.Request
	arrived  time.Time
	now      time.Time // later than arrived if it has waited since

	body    incoming.Body
	share   budget.Share   // of the memory, that the body has
	views   *catalog.Views // what the caller may see and call; nil: everything
	request message.Request
	method  string
	at      revision.Revision

	// What became of it, for metrics, logs and placeholders.
	outcome outcome.Outcome
	kind    revision.Kind
	server  *Server // that it was routed to
	tool    string
	took    time.Duration

	client *session.Client // the session of a legacy client; nil: it is in none
	speaks revision.Era    // that of the server, as far as it is called
	waits  *session.Call   // what can be cancelled; nil: nothing
	asked  bool            // a server has been sent something

	presented []*feed.Caller   // as whom the caller comes to the servers, by their numbers
	knocked   *shownList       // the door's list of the visit's kind, which has let the caller in; nil: none has, or it is used
	refused   *jsonrpc.Problem // the door's, of a list
	renewed   bool             // the guard's credential has been
	crowded   bool             // a list could not be joined, as too many are

	// Of what is sent to a legacy server.
	as      *session.Client  // as whom the session with it is opened
	opened  *session.Opened  // that session
	within  *session.Session // the client's place in the table, which has it
	again   bool             // the server is asked once more
	checked bool             // it has been found out whether the session is lost
	lost    bool             // the server has lost the session, and is to be asked once more
	number  []byte           // the id of what it is sent, in place of a modern client's

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

func newVisit(e *Endpoint, w http.ResponseWriter, r *http.Request) *visit {
	// Before fields are removed: what a handler in front of us has set for rules, a client must
	// not take away by naming it in Connection.
	views := e.viewsFor(r)
	incoming.RemoveConnectionFields(r.Header)
	now := time.Now()
	v := &visit{endpoint: e, w: w, r: r, views: views, arrived: now, now: now, share: e.cache.Work().Share()}
	if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(v.placeholder)
	}
	return v
}

// done reports what has become of the request.
func (v *visit) done() {
	v.body.Release()
	v.share.Release()
	v.took = time.Since(v.arrived)
	a := answered{v}
	v.endpoint.Observer.Answered(a)
	if v.server != nil {
		v.server.Observer.Answered(a)
	}
	if c := v.endpoint.Logger.Check(zapcore.DebugLevel, "request decided"); c != nil {
		c.Write(zap.String("method", outcome.Methods[outcome.LabelOf(v.r.Method, v.method)]), zap.Stringer("outcome", v.outcome),
			zap.String("server", a.Server()), zap.Stringer("revision", v.at), zap.Duration("took", v.took))
	}
}

// answered is a visit that is over, an [outcome.Answered].
type answered struct{ *visit }

func (a answered) Context() context.Context    { return a.r.Context() }
func (a answered) Method() int                 { return outcome.LabelOf(a.r.Method, a.method) }
func (a answered) MethodName() string          { return a.method }
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
func (v *visit) placeholder(key string) (any, bool) { return outcome.Placeholder(key, answered{v}) }

// post answers a message.
func (v *visit) post(next caddyhttp.Handler) error {
	if !incoming.PlainJSON(v.r.Header) {
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
	if v.request.Method == nil {
		return v.fail(jsonrpc.Invalid(jsonrpc.InvalidRequest, "no request of a server waits for an answer"))
	}
	if v.request.ID == nil {
		// Of notifications, a modern client has none that the servers would need.
		v.own()
		v.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if f := v.check(); f != nil {
		return v.fail(f)
	}
	if f := v.enter(); f != nil {
		return v.fail(f)
	}
	switch v.method {
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
func (v *visit) read() (*jsonrpc.Problem, error) {
	s := &v.endpoint.Settings
	tooLarge := jsonrpc.Refused(http.StatusRequestEntityTooLarge, "the request is larger than max_call, and the server that it is for has to be found out")
	if v.r.ContentLength > s.MaxCall {
		return tooLarge, nil
	}
	if err := v.body.Read(v.r, s.MaxRequest); err != nil {
		return nil, err
	}
	if f := v.enterBeforeLong(); f != nil {
		return f, nil
	}
	switch err := v.body.ReadOn(v.w, v.r, s.MaxCall, &v.share); {
	case errors.Is(err, incoming.ErrNoRoom):
		return v.noRoom("there is no memory left for a request of that size: try again"), nil
	case err != nil:
		return nil, err
	case !v.body.Whole:
		return tooLarge, nil
	}
	return nil, nil
}

// noRoom is the refusal of what there is no memory for now.
func (v *visit) noRoom(text string) *jsonrpc.Problem {
	v.w.Header()["Retry-After"] = []string{"1"}
	return jsonrpc.Failed(http.StatusServiceUnavailable, text)
}

// decode takes the message apart.
func (v *visit) decode() *jsonrpc.Problem {
	err := v.endpoint.decode(v.body.Bytes, &v.request)
	v.method = string(v.request.Method)
	switch {
	case errors.Is(err, message.ErrBatch):
		return jsonrpc.Invalid(jsonrpc.InvalidRequest, "batches are not taken: send one message at a time")
	case errors.Is(err, message.ErrAmbiguous):
		return jsonrpc.Invalid(jsonrpc.InvalidRequest, err.Error())
	case err != nil:
		return jsonrpc.Invalid(jsonrpc.ParseError, err.Error())
	}
	return nil
}

// decode takes a message apart. Those like the last lists that were asked for cost less.
func (e *Endpoint) decode(body []byte, r *message.Request) error {
	if e.requests.Recall(body, r) {
		return nil
	}
	if _, listed := revision.KindOf(string(message.Method(body))); listed {
		return e.requests.Decode(body, r)
	}
	return message.Decode(body, r)
}

// check finds out whether the request is a valid one of the modern era (2026-07-28,
// "Streamable HTTP", "Request Metadata"; "Versioning").
func (v *visit) check() *jsonrpc.Problem {
	meta := &v.request.Meta
	named := v.r.Header["Mcp-Protocol-Version"]
	v.at = revision.Parse(string(meta.Revision))
	switch {
	case meta.Revision == nil && len(named) == 1 && named[0] != revision.LatestModern.String():
		return jsonrpc.Unsupported(named[0], supported...)
	case meta.Revision == nil:
		return jsonrpc.Invalid(jsonrpc.InvalidParams, "_meta has no io.modelcontextprotocol/protocolVersion")
	case v.at != revision.LatestModern:
		return jsonrpc.Unsupported(string(meta.Revision), supported...)
	case len(named) != 1 || named[0] != string(meta.Revision):
		return jsonrpc.Invalid(jsonrpc.HeaderMismatch, "MCP-Protocol-Version is not that of _meta, "+string(meta.Revision))
	case meta.Capabilities == nil:
		return jsonrpc.Invalid(jsonrpc.InvalidParams, "_meta has no io.modelcontextprotocol/clientCapabilities")
	case len(v.r.Header["Mcp-Method"]) != 1 || v.r.Header["Mcp-Method"][0] != v.method:
		return jsonrpc.Invalid(jsonrpc.HeaderMismatch, "Mcp-Method is not the method, "+v.method)
	}
	return nil
}

// AllowPage implements [reply.Asker]: pages of the origins that are let in may read the
// answer. If the site itself says who may, pages still need the header of a session, which the site
// does not know of.
func (v *visit) AllowPage(h http.Header) {
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
func (v *visit) preflight() error {
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
