package exchange

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/volatileheaders"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/warnings"
)

// Settings are the options of a handler that are about requests, whichever server
// answers them. See the options of the same names.
type Settings struct {
	Name string
	// Path is that of the MCP endpoint, the option endpoint.
	Path       string
	MaxRequest int64
	// MaxCall is the largest request that is read for what it names, in bytes.
	MaxCall int64
	Origins origin.Rules
	// LendsCredentials says that the way to the upstream puts a credential on requests
	// that is not their own.
	LendsCredentials bool
}

// Defaults returns the settings without any option.
func Defaults() Settings {
	return Settings{Name: "mcp_cache", Path: "/mcp", MaxRequest: 64 << 10, MaxCall: 4 << 20}
}

// Rules are the operator's, of what callers may see and call.
type Rules interface {
	// View returns what the caller of a request may see and call.
	View(r *http.Request) *policy.View
}

// Endpoint answers the requests of clients. It is made by [New].
type Endpoint struct {
	Settings Settings
	Observer outcome.Observer
	Logger   *zap.Logger
	// Rules say what callers may see and call; nil: everything.
	Rules Rules
	// Warnings are made of what requests show.
	Warnings *warnings.Log
	// Paging cuts lists into pages; nil: they are one page each.
	Paging *Paging

	backend         *backend.Ref
	twin            string           // the path that the server may redirect the endpoint to
	catalog         *catalog.Catalog // the lists as callers see them
	status          outcome.CacheStatus
	requests        message.Templates
	keeping         keeping
	volatileHeaders *volatileheaders.Watcher

	revalidations flight.Group[asked, bool]
	scouts        flight.Group[string, struct{}] // of authorization contexts, by the cache's keys
}

// New returns an endpoint in front of a server.
func New(s Settings, t *backend.Ref, o outcome.Observer, l *zap.Logger) *Endpoint {
	return &Endpoint{
		Settings: s, Observer: o, Logger: l, Warnings: warnings.New(l), backend: t, twin: redirect.Twin(s.Path), catalog: catalog.Of(t.Cache),
		status: outcome.NewCacheStatus(s.Name), volatileHeaders: volatileheaders.New(),
		revalidations: flight.Group[asked, bool]{Max: maxRevalidations}, scouts: flight.Group[string, struct{}]{Max: maxScouts},
	}
}

// ServeHTTP answers a request. It implements [caddyhttp.MiddlewareHandler].
//
// A request to the MCP endpoint is first refused or let in by its origin. If it is
// fully understood, it is looked up in the cache, and answered from there or
// forwarded. When in doubt it is forwarded, and the upstream's own answer comes
// back.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.URL.Path != e.Settings.Path && !e.isTwin(r) {
		return e.pass(w, r, next)
	}
	refusal := e.Settings.Origins.Refuses(r) // before fields are removed from the header
	x := e.exchange(w, r)
	x.mapPlaceholders()
	defer x.conclude()
	if refusal.Reason != "" {
		return e.refuse(w, refusal)
	}
	err := x.serve(next)
	if none, is := errors.AsType[unanswered](err); is {
		return x.unreachable(none.error)
	}
	return err
}

// isTwin reports whether a request is for the endpoint although its path has a slash more,
// or less, because the server sends clients there. Servers differ in what an escaped path
// is (RFC 3986 section 6.2.2.2), so that is none.
func (e *Endpoint) isTwin(r *http.Request) bool {
	return e.backend.Slash().Redirects() && r.URL.RawPath == "" && r.URL.Path == e.twin
}

// serve answers or forwards a request whose origin is let in.
func (x *exchange) serve(next caddyhttp.Handler) error {
	reason, err := x.understand()
	if err != nil {
		return err
	}
	if reason != understood || x.question.kind == revision.Reads {
		if done, err := x.guard(next); done {
			return err
		}
	}
	if reason != understood {
		return x.answerInstead(x.forward(next, lookupResult{reason: reason}, false))
	}
	x.backend.AwaitStored(x.r.Context(), x.arrived)
	caller := x.caller()
	x.findVariant(&x.search, caller)
	f := lookupResult{reason: bypassAdmission}
	if !x.isPageUnknown() {
		f = x.awaitOwn(x.lookup(x.r.Context(), caller))
		if f.entry == nil {
			f.reason = x.blame(f.reason)
		} else if !x.hold(&f) {
			f = lookupResult{}
		}
	}
	switch {
	case f.entry != nil:
		if x.session != "" && !f.stale && !f.fetched && caller.KeepAlive(x.now) {
			x.keepAlive(next, f)
		}
		return x.answer(f)
	case x.cursor != "":
		return x.askForList(next, f)
	}
	return x.answerInstead(x.forward(next, f, true))
}

// exchange begins an exchange and routes it to its backend. It removes the header
// fields that are meant for us alone.
func (e *Endpoint) exchange(w http.ResponseWriter, r *http.Request) *exchange {
	var view *policy.View
	if e.Rules != nil {
		// Before fields are removed: what a handler in front of us has set for rules, a
		// client must not take away by naming it in Connection.
		view = e.Rules.View(r)
	}
	header.RemoveConnectionFields(r.Header)
	if view.RestrictsAny() {
		// Nobody could see what is named in another protocol. To ask for one is no more
		// than an offer (RFC 9110, section 7.8).
		delete(r.Header, "Upgrade")
	}
	now := time.Now()
	x := &exchange{
		search: search{catalog: e.catalog, backend: e.route(), arrived: now, now: now}, endpoint: e, w: w, r: r, view: view,
	}
	if x.sessions = r.Header["Mcp-Session-Id"]; len(x.sessions) == 1 {
		x.session = x.sessions[0]
	}
	x.replacer = replacerOf(r)
	return x
}

// route returns the backend that a request goes to: the only one.
func (e *Endpoint) route() *backend.Ref { return e.backend }

// refuse answers 403 with a JSON-RPC error, so that no client takes it for a
// server of another era.
func (e *Endpoint) refuse(w http.ResponseWriter, refusal origin.Refusal) error {
	e.Warnings.Warn(refusal.Remark())
	body := jsonrpc.Refused(http.StatusForbidden, refusal.Reason).Append(nil, nil)
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Cache-Status"] = []string{e.status.Own("origin")}
	w.WriteHeader(http.StatusForbidden)
	_, err := w.Write(body)
	return err
}
