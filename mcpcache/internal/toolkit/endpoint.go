// Package toolkit answers the requests of clients in front of several servers. It is the second
// way of a request, beside the package exchange, over the same backends. No single server could
// check a request. So the toolkit checks it, and rejects what is not certain with the protocol's
// own error:
//
//	origin ─ POST ─ read ─ decode ─┬─ modern: check ───┬─ list ─► joined catalog ─► answer: id, ttlMs, joined bytes
//	                               └─ legacy: session ─┼─ call, get, read, complete ─► table ─► name spliced ─► (session with
//	                                                   │                                   the server) ─► (bridge) ─► upstream
//	                                                   │                                   handler ─► (bridge) ─► client
//	                                                   └─ initialize, ping, level, end ─► answered here
//	origin ─ GET, subscriptions/listen ─► a stream that ends with the client
//	a server's list changes ─► joined ─► another one than before? ─► its notice, on each stream
//
// A table of names says which server a call is for.
//
// The toolkit ends the sessions of legacy clients itself. The id of a session seals everything
// that the toolkit has to know about it. A client has a session with each server that it calls, in
// a table that outlives a configuration. If the client and the server are of different eras, the
// package bridge translates between them. A modern caller then has a session in that table with a
// legacy server, too. Clients that listen get the notice of a change once the new list is joined.
//
// The configuration of each server says which of the caller's credentials it receives: see
// [passedOn] and [Credentials]. The toolkit asks a server that receives any for lists with them.
// These lists are that caller's alone, and the toolkit joins them for it. One of the servers may
// be the door, which has to let every caller in.
//
// The rules of a server speak of the server's own names. The rules above speak of the names that
// callers see. Callers for whom all rules say the same share one joined list.
package toolkit

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/callerlists"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/warnings"
)

// Settings are the options of a toolkit. See the options of the same names.
type Settings struct {
	Name string
	// Path is that of the MCP endpoint, the option endpoint.
	Path                string
	MaxRequest, MaxCall int64
	Limits              catalog.Limits
	Memory              int64
	Gate                time.Duration
	Precompress         bool
	Origins             origin.Rules
	// Version is what the module says of itself.
	Version string
	// SessionTTL is how long the session of a legacy client lasts, and Sessions what is open
	// for it.
	SessionTTL time.Duration
	Sessions   *session.Table
	// Sealer returns what seals the ids of sessions. Until Settled is closed, it may not open
	// what was sealed before a restart. Once Tried is closed, nobody waits for that.
	Sealer         func() *seal.Sealer
	Settled, Tried <-chan struct{}
	// Door is the server that lets callers in; "": all are in.
	Door string
	// Rules are those beside the servers; nil: there are none.
	Rules Rules
	// Broker has the clients that listen for changes.
	Broker *notices.Broker
}

// Endpoint answers the requests of clients. It is made by [New].
type Endpoint struct {
	Settings Settings
	Observer outcome.Observer
	Logger   *zap.Logger
	// Warnings are made of what requests show.
	Warnings *warnings.Log

	servers    []*Server
	door       *Server          // nil: there is none
	personal   bool             // servers may show single callers other lists
	widest     *catalog.Views   // of a caller who may see as much as anybody; nil: there are no rules
	varies     revision.KindSet // of which rules have callers see different items
	catalog    *catalog.Joined
	cache      *cache.Cache   // of the joined lists
	bridged    *budget.Budget // for answers of servers of the other era
	compressor *encoded.Compressor
	requests   message.Templates
	conflicts  conflicts
	status     outcome.CacheStatus
	end        context.CancelFunc

	changed     chan struct{} // a server's list has changed
	publisher   func() *notices.Publisher
	reconciling chan struct{}                   // is full during reconcile, which may take seconds (synctest waits for no mutex)
	seen        [2][revision.NumKinds]published // the lists at the last reconcile; reconciling is full
	notified    [2][revision.NumKinds]published // the lists of the last notices; reconciling is full
}

// New returns an endpoint in front of several servers. It has to be closed.
func New(s Settings, servers []*Server, o outcome.Observer, l *zap.Logger) (*Endpoint, error) {
	own, err := cache.New(s.Memory)
	if err != nil {
		return nil, err
	}
	own.SetPrecompress(s.Precompress)
	joining := make([]catalog.Joining, len(servers))
	for i, server := range servers {
		joining[i] = catalog.Joining{Name: server.Name, Prefix: server.Prefix}
		address, err := url.Parse(server.URL)
		if err != nil {
			return nil, fmt.Errorf("server %s: %w", server.Name, err)
		}
		server.path, server.Host, server.number = address.Path, cmp.Or(server.Host, address.Host), i
	}
	e := &Endpoint{
		Settings: s, Observer: o, Logger: l, Warnings: warnings.New(l), servers: servers, cache: own, status: outcome.NewCacheStatus(s.Name), widest: widestViews(s.Rules, servers),
	}
	e.varies = varying(e.widest)
	e.catalog = catalog.NewJoined(joining, catalog.About{Name: s.Name, Version: s.Version}, s.Limits, own, e.widest)
	for _, server := range servers {
		server.callerLists = callerlists.New(server.Cache)
		e.personal = e.personal || server.Credentials.isPersonal()
		if server.Name == s.Door {
			e.door = server
		}
	}
	e.bridged = budget.New(s.Memory / 2)
	e.compressor = encoded.NewCompressor(own.Wanted(), func() *zap.Logger { return l })
	e.end = func() {}
	e.changed, e.reconciling = make(chan struct{}, 1), make(chan struct{}, 1)
	// A configuration that is never in force publishes nothing.
	e.publisher = sync.OnceValue(func() *notices.Publisher { return s.Broker.Publisher(e.reconcileSoon) })
	return e, nil
}

// Run begins the work in the background, which ends with [Endpoint.Close].
func (e *Endpoint) Run() {
	ctx, cancel := context.WithCancel(context.Background())
	e.end = cancel
	go e.compressor.Run(ctx)
	e.publisher()
	go e.announce(ctx)
}

// Close ends what Run has begun, and what servers are asked for that no request needs. Requests
// under way go on, and so do the streams of clients that listen: another configuration may publish
// for them.
func (e *Endpoint) Close() {
	e.end()
	for _, server := range e.servers {
		server.callerLists.Close()
	}
	e.publisher().Close()
	e.cache.Close()
}

// allowed are the methods that the endpoint takes.
const allowed = http.MethodPost + ", " + http.MethodGet + ", " + http.MethodDelete

// ServeHTTP answers a request. It implements [caddyhttp.MiddlewareHandler].
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.URL.Path != e.Settings.Path {
		return e.elsewhere(w, r, next)
	}
	foreign := e.Settings.Origins.Refuses(r) // before fields are removed from the header
	v := newRequest(e, w, r)
	defer v.done()
	if foreign.Reason != "" {
		return v.refuse(foreign)
	}
	switch r.Method {
	case http.MethodPost:
		return v.post(next)
	case http.MethodGet:
		return v.get()
	case http.MethodDelete:
		return v.endSession()
	case http.MethodOptions:
		return v.preflight()
	}
	return v.notAllowed("this MCP endpoint takes "+allowed+" alone", allowed)
}

// refuse refuses a request of a foreign page, or by a name that was made to lead here.
func (q *request) refuse(foreign origin.Refusal) error {
	q.endpoint.Warnings.Warn(foreign.Remark())
	q.status = statusOrigin
	return q.fail(jsonrpc.Refused(http.StatusForbidden, foreign.Reason))
}

// notAllowed refuses a method of HTTP.
func (q *request) notAllowed(text, allowed string) error {
	q.w.Header()["Allow"] = []string{allowed}
	return q.fail(jsonrpc.Refused(http.StatusMethodNotAllowed, text))
}
