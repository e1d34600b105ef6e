package mcpcache

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/telemetry"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/toolkit"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// pool holds the backends, which may outlive a configuration. See
// [backend.Tenant.Acquire].
var pool = caddy.NewUsagePool()

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler answers MCP list requests from memory and hands everything else to
// an upstream handler, usually `reverse_proxy`. See the package documentation
// for what it guarantees.
type Handler struct {
	// The handler that reaches the MCP server, usually `reverse_proxy`. The
	// requests of clients and those of the feed both go through it. Required, if there are no `servers`.
	UpstreamRaw json.RawMessage `json:"upstream,omitempty" caddy:"namespace=http.handlers inline_key=handler"`

	// Several MCP servers behind one endpoint, a toolkit, in the place of `upstream`.
	// Clients see the lists of all, in this order, the names of tools and prompts with
	// a prefix; each call goes to the server that it is for. Which options then are the
	// servers', says [Server].
	Servers []*Server `json:"servers,omitempty"`

	// The most bytes that the name of a tool or prompt has with the prefix of its
	// server, of `servers`. Names that the prefix makes longer are shortened, always
	// to the same. From 16 to 128. Default: 48
	NameLimit int `json:"name_limit,omitempty"`

	// The path of the MCP endpoint. Requests to other paths are passed on
	// once their Host and Origin have been checked. Default: `/mcp`
	Endpoint string `json:"endpoint,omitempty"`

	// The Host that the feed sends, as `name` or `name:port`, where the
	// upstream handler lets the clients' Hosts through to the server. Lists
	// that are not everybody's are shared with clients of that Host only.
	// Default: the server's address, as the first upstream has it
	Host string `json:"host,omitempty"`

	// Which eras of MCP the feed speaks: `legacy`, the revisions with sessions,
	// and `modern`, those without. A server that speaks one of them alone need
	// not be asked for the other. Lists of clients of an era that is not named
	// come from the server. Default: both, `legacy` is tried first
	Eras []string `json:"eras,omitempty"`

	// Which lists to cache: `tools`, `prompts`, `resources`,
	// `resource_templates`, `discover`. Default: all of them.
	Kinds []string `json:"kinds,omitempty"`

	// How long a list is fresh when the upstream gives no `ttlMs`. A
	// `ttlMs` of 0 is obeyed: such a list is never served without asking.
	// Default: 5m
	TTL caddy.Duration `json:"ttl,omitempty"`

	// The same for single kinds, by their names. Default: `ttl`
	TTLByKind map[string]caddy.Duration `json:"ttl_by_kind,omitempty"`

	// The shortest time a list is fresh, whatever its `ttlMs` says, such as the
	// 0 that SDKs send when the author of the server has set nothing. The cache
	// has an announced change at once all the same; clients that keep lists
	// themselves may miss it for this long. Lists and `server/discover` only,
	// never the contents of resources. Default: 0, `ttlMs` is obeyed
	MinTTL caddy.Duration `json:"min_ttl,omitempty"`

	// The same for single kinds, by their names. Default: `min_ttl`
	MinTTLByKind map[string]caddy.Duration `json:"min_ttl_by_kind,omitempty"`

	// The longest time a list is fresh, whatever its `ttlMs` says.
	// Default: 24h
	MaxTTL caddy.Duration `json:"max_ttl,omitempty"`

	// The same for single kinds, by their names. Default: `max_ttl`
	MaxTTLByKind map[string]caddy.Duration `json:"max_ttl_by_kind,omitempty"`

	// How long a copy may be served after it went stale while the upstream
	// fails. 0 turns that off. Default: 24h
	StaleIfError *caddy.Duration `json:"stale_if_error,omitempty"`

	// Whether callers who have been told of a change may be given the copy
	// from before it, marked stale, when the upstream then fails. If not,
	// they are given the failure. Default: false
	StaleAfterNotice bool `json:"stale_after_notice,omitempty"`

	// How long the answer to `initialize` is held back for the first
	// hydrate, so that a client's first list is already a hit. 0 turns that
	// off. Default: 2s
	Gate *caddy.Duration `json:"gate,omitempty"`

	// Who may share a list that carries no `cacheScope`: `private` (the
	// callers with the same credentials) or `public` (everybody).
	// Default: `private`
	Scope string `json:"scope,omitempty"`

	// Whether `scope` `public` counts for all lists, also for those that the
	// upstream calls private; never for the contents of resources. Only safe
	// where the upstream shows every caller the same lists. Default: false
	ScopeAlways bool `json:"scope_always,omitempty"`

	// More request values, as placeholders, that tell callers apart besides
	// `Authorization`, `Cookie`, `DPoP`, the client certificate, the query
	// string, the user an authenticating handler has found and the placeholders
	// that the upstream handler uses. With a placeholder here that the upstream
	// handler uses, too, scope `public` counts for nothing, and lists are shared
	// only by callers for whom it has the same value.
	Partition []string `json:"partition,omitempty"`

	// Names of more request headers that do not tell callers apart, besides
	// those that are known not to, such as `X-Conversation-Id`. Every other
	// header does. A credential cannot be named.
	Harmless []string `json:"harmless,omitempty"`

	// Who lets callers in: `upstream` (a caller is served from the cache only
	// after the upstream has accepted the same credentials or session) or
	// `all` (handlers in front of this one have already checked everybody).
	// Default: `upstream`
	Admit string `json:"admit,omitempty"`

	// How long the upstream's acceptance of a caller counts, with `upstream`.
	// A token's own expiry shortens it. Default: 5m
	AdmitFor caddy.Duration `json:"admit_for,omitempty"`

	// Origins of browser pages that are let in besides the endpoint's own,
	// such as `https://app.example.com`. A host named here is also accepted
	// in the Host header of requests that arrive at a loopback address.
	Origins []string `json:"origins,omitempty"`

	// What callers may see and call: each rule allows or denies some items, to everybody
	// or to some. Their order does not matter. Default: everything
	Rules []*Rule `json:"rules,omitempty"`

	// How many items a page of a list has, where the list comes from memory: at most
	// 1000000. Lists that the server answers come as they are. Default: 0, one page
	PageSize int `json:"page_size,omitempty"`

	// The file with the secrets that seal the cursors of pages: one or two lines of 32
	// random bytes in base64, as `openssl rand -base64 32` writes them. The first seals,
	// what any of them has sealed is opened. It is looked at again when it changes. Only
	// with `page_size`. Default: none; one secret is made, and kept in Caddy's storage
	SecretFile string `json:"secret_file,omitempty"`

	// The guard that gives the feed its credential. Default: none, the feed
	// is an anonymous caller.
	GuardRaw json.RawMessage `json:"guard,omitempty" caddy:"namespace=http.mcp_cache.guards inline_key=guard"`

	// Where the feed's snapshots are kept, so that lists are there after a
	// restart even while the upstream is not: only those that anybody may be
	// given, or anybody without credentials. One that nobody has saved for a
	// week is deleted. Default: `caddy`, Caddy's own storage. `off` keeps none.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=http.mcp_cache.stores inline_key=store"`

	// The least time between two refreshes of a kind that change notices and
	// expiries start. Default: 1s
	Refresh caddy.Duration `json:"refresh,omitempty"`

	// The largest request body, in bytes, that is looked into. A larger one
	// streams through. Default: 65536
	MaxRequest int64 `json:"max_request,omitempty"`

	// The largest request, in bytes, that is read for what it names, where there are
	// `rules`. A larger one is refused there. At least `max_request`, at most a
	// sixteenth of `memory`; the default follows them. Default: 4194304
	MaxCall int64 `json:"max_call,omitempty"`

	// The largest list of one kind, in bytes, that is kept. Default: 33554432
	MaxList int64 `json:"max_list,omitempty"`

	// The most pages a list may have. Default: 1000
	MaxPages int `json:"max_pages,omitempty"`

	// Bytes that the process may need for everything together but the feed's own
	// snapshots: answers that are kept, as they are and compressed, answers that
	// are being recorded, parsed and written to slow readers, and the garbage of
	// all that, which takes half. What does not fit is passed on and not kept.
	// Default: 67108864
	Memory int64 `json:"memory,omitempty"`

	// Whether answers of 1 KiB and more are compressed once, in the
	// background, to gzip and zstd for the clients that accept one of them.
	// A list that changes all the time is, once it has stayed for two seconds.
	// An eighth of `memory` is for the compressed bytes. Default: true
	Precompress *bool `json:"precompress,omitempty"`

	// What this handler is called in metrics, the admin API and the
	// `Cache-Status` header. Default: `mcp_cache`
	Name string `json:"name,omitempty"`

	upstream caddyhttp.MiddlewareHandler
	guard    guards.Guard
	store    stores.Store
	logger   *zap.Logger
	settings *settings
	rules    *rules   // nil if there are none
	cursors  *cursors // nil if lists are one page
	app      *app

	endpointURL string   // as the feeds see it
	replicaURLs []string // of all that the configuration names, that one first
	feedHost    string   // the Host of the feeds' requests; "" if clients' Hosts do not reach the server
	backend     *backend.Tenant
	endpoint    *exchange.Endpoint
	toolkit     *toolkit.Endpoint // in front of several servers, in the place of endpoint
	cleaned     bool              // what the toolkit took has been given back
	telemetry   *telemetry.Telemetry
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.toolkit != nil {
		return h.toolkit.ServeHTTP(w, r, next)
	}
	return h.endpoint.ServeHTTP(w, r, next)
}

// CaddyModule returns the Caddy module information. Caddy asks for it at any
// time, also while Cleanup runs, so it must not copy the handler.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.mcp_cache",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision sets the handler up. It reaches nothing outside the process but a secret
// file: the feeds start when the whole configuration has.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	if len(h.Servers) > 0 {
		return h.provisionToolkit(ctx)
	}
	return h.provision(ctx, "")
}

// provision sets up a handler in front of one server. With a name, it is that server of a
// toolkit, which has the endpoint.
func (h *Handler) provision(ctx caddy.Context, name string) error {
	if h.NameLimit != 0 {
		return errors.New("name_limit: only with several servers")
	}
	if h.UpstreamRaw == nil {
		return errors.New("upstream: missing; it is the handler that reaches the MCP server")
	}
	loaded, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("loading the events app: %w", err)
	}
	events := loaded.(*caddyevents.App)
	if h.settings, err = h.newSettings(); err != nil {
		return err
	}
	if name != "" {
		h.logger = ctx.Logger().With(zap.String("server", h.Name))
		h.settings.exchange.Name = name
	}
	if h.rules, err = loadRules(ctx, h.Rules, h.logger); err != nil {
		return err
	}
	if h.cursors, err = h.newCursors(); err != nil {
		return err
	}
	telling := tellingPlaceholders(h.UpstreamRaw, h.settings.harmless, h.settings.partition)
	if name != "" && len(telling) > 0 {
		return fmt.Errorf("upstream: it is sent values of the request, {%s}; a server of a toolkit is sent nothing of the caller's", strings.Join(telling, "}, {"))
	}
	h.keepApart(telling)
	key, err := h.feedKey(telling)
	if err != nil {
		return err
	}
	// Loading the guests empties their raw configuration.
	own, placeholders := ownUpstream(h.UpstreamRaw), placeholdersIn(h.UpstreamRaw)
	h.settings.backend.Feed.Sent = sentCredentials(h.UpstreamRaw)
	h.settings.exchange.LendsCredentials = areLent(h.settings.backend.Feed.Sent)
	urls, known := upstreamURLs(h.UpstreamRaw, h.settings.exchange.Path)
	h.endpointURL, h.replicaURLs = urls[0], urls
	if known {
		h.settings.backend.Feed.Endpoint = h.endpointURL
	}
	if err := h.loadGuests(ctx); err != nil {
		return err
	}
	if err := h.findFeedHost(); err != nil {
		return err
	}
	h.settings.backend.Addresses = serverAddresses(h.upstream)
	h.settings.backend.Feed.Guard = h.guard
	if h.guard != nil {
		key = append(key, h.guard.Identity()...)
	}
	if loaded, err = ctx.App("mcp_cache"); err != nil {
		return fmt.Errorf("loading the app that starts the feeds: %w", err)
	}
	h.app = loaded.(*app)
	if err := h.acquire(key, own, placeholders, telling); err != nil {
		return err
	}
	h.app.shutdown.add()
	h.observe(ctx, events)
	h.backend.Attach()
	report.Live.Add(reported{h})
	h.app.handlers = append(h.app.handlers, h)
	if err := telemetry.Register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	h.app.onStart(h.backend.Run)
	return nil
}

// observe makes the telemetry, and the endpoint that reports to it.
func (h *Handler) observe(ctx caddy.Context, events *caddyevents.App) {
	h.telemetry = telemetry.New(ctx, events, h.settings.exchange.Name, h.app.inForce, h.logger)
	h.settings.backend.Feed.Observer = h.telemetry.Feeds()
	h.endpoint = exchange.New(h.settings.exchange, h.backend, h.telemetry.Requests(), h.logger)
	if h.cursors != nil {
		h.endpoint.Paging = &exchange.Paging{Size: h.PageSize, Sealer: h.cursors.sealer, Server: h.endpointURL}
		h.cursors.use(h.backend.Secret)
		h.app.onStart(func() { h.cursors.start(ctx, ctx.Storage()) })
	}
	if h.rules != nil {
		h.rules.failed = h.telemetry.RuleFailed
		h.rules.use = newRuleUse(h.rules.set, func() []*cache.Entry { return listsOf(h.backend.Feeds, h.backend.Cache) },
			h.settings.backend.Kinds.Has(revision.ResourceTemplates), h.logger)
		h.app.onStart(func() { go h.rules.use.run(ctx) })
		h.endpoint.Rules = h.rules
	}
}

// loadGuests loads the upstream handler, the store and the guard.
func (h *Handler) loadGuests(ctx caddy.Context) error {
	mod, err := ctx.LoadModule(h, "UpstreamRaw")
	if err != nil {
		return fmt.Errorf("loading upstream: %w", err)
	}
	var ok bool
	if h.upstream, ok = mod.(caddyhttp.MiddlewareHandler); !ok {
		return fmt.Errorf("upstream: %T is not an HTTP handler", mod)
	}
	if h.StoreRaw == nil {
		h.StoreRaw = json.RawMessage(`{"store":"caddy"}`)
	}
	if mod, err = ctx.LoadModule(h, "StoreRaw"); err != nil {
		return fmt.Errorf("loading store: %w", err)
	}
	if h.store, ok = mod.(stores.Store); !ok {
		return fmt.Errorf("store: %T is not a store", mod)
	}
	if h.GuardRaw == nil {
		return nil
	}
	if mod, err = ctx.LoadModule(h, "GuardRaw"); err != nil {
		return fmt.Errorf("loading guard: %w", err)
	}
	if h.guard, ok = mod.(guards.Guard); !ok {
		return fmt.Errorf("guard: %T is not a guard", mod)
	}
	return nil
}

// Cleanup gives back what Provision took. Requests under way are not harmed: the backend
// stays as long as another configuration uses it, and a request that finds it closed is
// forwarded.
func (h *Handler) Cleanup() error {
	if len(h.Servers) > 0 {
		return h.cleanupToolkit()
	}
	if h.backend == nil || h.backend.Key == "" {
		return nil
	}
	h.backend.Detach()
	report.Live.Remove(reported{h}, telemetry.Forget)
	h.telemetry.Stop()
	ended, err := h.backend.Release()
	h.app.shutdown.done(ended)
	return err
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
