package mcpcache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/ruleset"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/telemetry"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstreamconfig"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/transports/stdio"
)

// options are those that set up one server.
type options struct {
	*ServerOptions
	*SharedOptions
	*EndpointOptions
	*OneServerOptions
}

// options returns the handler's options. In front of several servers, those of the servers are
// not among them.
func (h *Handler) options() options {
	return options{&h.ServerOptions, &h.SharedOptions, &h.EndpointOptions, &h.OneServerOptions}
}

// upstream is one MCP server as it is set up: the server of a handler, or one of several.
type upstream struct {
	options
	inToolkit bool

	logger   *zap.Logger
	app      *app
	settings *settings
	handler  caddyhttp.MiddlewareHandler
	program  upstreamconfig.Program // nil if the server is none
	guard    guards.Guard           // nil if there is none
	store    stores.Store
	sharing  *seal.Source[secret.Ring] // nil if the store is this instance's own
	rules    *ruleset.Rules            // nil if there are none

	urls               []string // of all replicas; the feeds ask the first
	addressFromRequest string   // of the server, if it depends on the request; "" if it does not
	feedHost           string   // the Host of the feeds' requests; "" if clients' Hosts do not reach the server

	backend   *backend.Tenant
	telemetry *telemetry.Telemetry
	endpoint  *exchange.Endpoint // nil in a toolkit, which has one for all of its servers
}

// provision sets up the server, without an endpoint. name is what operators know it by; "" is the
// name that the options give.
func (u *upstream) provision(ctx caddy.Context, name string) error {
	if u.UpstreamRaw == nil {
		return errors.New("upstream: missing; it is the handler that reaches the MCP server")
	}
	events, err := eventsApp(ctx)
	if err != nil {
		return err
	}
	if u.settings, err = u.newSettings(); err != nil {
		return err
	}
	u.settings.exchange.Name = cmp.Or(name, u.settings.exchange.Name)
	if u.rules, err = ruleset.Load(ctx, configured(u.Rules), u.Unlisted == unlistedAllow, u.logger); err != nil {
		return err
	}
	if err := u.connect(ctx); err != nil {
		return err
	}
	u.app.backends.Add()
	u.telemetry = telemetry.New(ctx, events, u.settings.exchange.Name, u.app.inForce, u.logger)
	u.settings.backend.Feed.Observer = u.telemetry.Feeds()
	return nil
}

// attach makes the server known to its backend and to operators, and has its feeds begin with the
// configuration.
func (u *upstream) attach(ctx caddy.Context) error {
	u.backend.Attach()
	report.Live.Add(reported{u})
	u.app.upstreams = append(u.app.upstreams, u)
	if err := telemetry.Register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if u.sharing != nil {
		u.app.onStart(func() { u.sharing.Start(ctx, ctx.Storage()) })
	}
	u.app.onStart(u.backend.Run)
	return nil
}

// watchRules tells the rules which requests and lists they are about. path is the path of the
// endpoint.
func (u *upstream) watchRules(ctx caddy.Context, path string) {
	u.rules.Watch(path, u.telemetry.RuleFailed, func() []*catalog.List { return ruleset.ListsOf(u.backend.Feeds, u.backend.Cache) },
		u.settings.backend.Kinds.Has(revision.ResourceTemplates), u.logger)
	u.app.onStart(func() { go u.rules.Run(ctx) })
}

// cleanup gives back what provision took, once.
func (u *upstream) cleanup() error {
	if u.backend == nil || u.backend.Key == "" {
		return nil
	}
	u.backend.Detach()
	report.Live.Remove(reported{u}, telemetry.Forget)
	u.telemetry.Stop()
	ended, err := u.backend.Release()
	u.app.backends.Done(ended)
	return err
}

// connect loads the guests, and takes the backend of the server that they reach.
func (u *upstream) connect(ctx caddy.Context) error {
	config := upstreamconfig.Read(u.UpstreamRaw)
	telling := config.Telling(u.settings.harmless, u.settings.partition)
	if u.inToolkit && len(telling) > 0 {
		return fmt.Errorf("upstream: it is sent values of the request, {%s}; of those, a server of a toolkit is sent what its options authorization and headers say", strings.Join(telling, "}, {"))
	}
	u.keepApart(telling)
	key, err := u.feedKey(config, telling)
	if err != nil {
		return err
	}
	u.read(config)
	if err := u.loadGuests(ctx); err != nil {
		return err
	}
	if u.sharing, err = u.newSharing(); err != nil {
		return err
	}
	if err := u.findFeedHost(); err != nil {
		return err
	}
	u.settings.backend.Addresses = upstreamconfig.Addresses(u.handler)
	u.settings.backend.Feed.Guard = u.guard
	if u.guard != nil {
		key = append(key, u.guard.Identity()...)
	}
	if u.program != nil {
		key = append(key, u.program.Identity()...)
	}
	loaded, err := ctx.App("mcp_cache")
	if err != nil {
		return fmt.Errorf("loading the app that starts the feeds: %w", err)
	}
	u.app = loaded.(*app)
	return u.acquire(config, key, telling)
}

// read takes over what the configuration of the upstream says of the server.
func (u *upstream) read(config upstreamconfig.Config) {
	feed := &u.settings.backend.Feed
	u.addressFromRequest = config.AddressFromRequest()
	feed.Blind = u.addressFromRequest != ""
	feed.Sent = config.Credentials()
	u.settings.exchange.LendsCredentials = upstreamconfig.AnyShared(feed.Sent)
	urls, direct := config.URLs(u.settings.exchange.Path)
	u.urls = urls
	if direct {
		feed.Endpoint = u.urls[0]
	}
}

// keepApart has callers be told apart by the placeholders that the upstream uses. The lists
// that the feed is given without their values are nobody's. If the operator says that callers
// share lists, they are for callers without these values.
func (u *upstream) keepApart(telling []string) {
	if len(telling) == 0 {
		return
	}
	feed := &u.settings.backend.Feed
	feed.FeedOnly = true
	const harmless = "if not, and if they are put in headers, name these headers after harmless"
	if slices.ContainsFunc(telling, func(name string) bool { return !upstreamconfig.Named(name, u.settings.partition) }) {
		u.logger.Info("the upstream is sent values of the request: lists are kept for each of them, also public ones; "+
			"that is right if the server goes by them; "+harmless, zap.Strings("placeholders", telling))
	}
}

// loadGuests loads the upstream handler, the store and the guard.
func (u *upstream) loadGuests(ctx caddy.Context) error {
	mod, err := ctx.LoadModule(u.ServerOptions, "UpstreamRaw")
	if err != nil {
		return fmt.Errorf("loading upstream: %w", err)
	}
	var ok bool
	if u.handler, ok = mod.(caddyhttp.MiddlewareHandler); !ok {
		return fmt.Errorf("upstream: %T is not an HTTP handler", mod)
	}
	if u.program = upstreamconfig.ProgramOf(u.handler); u.program != nil {
		u.program.OriginsAreChecked() // by this handler, which knows which are let in
		u.servesAll()
	}
	if err := u.loadStore(ctx); err != nil {
		return err
	}
	if u.GuardRaw == nil {
		return nil
	}
	if mod, err = ctx.LoadModule(u.ServerOptions, "GuardRaw"); err != nil {
		return fmt.Errorf("loading guard: %w", err)
	}
	if u.guard, ok = mod.(guards.Guard); !ok {
		return fmt.Errorf("guard: %T is not a guard", mod)
	}
	return nil
}

// loadStore loads the store.
func (u *upstream) loadStore(ctx caddy.Context) error {
	if u.StoreRaw == nil {
		u.StoreRaw = json.RawMessage(`{"store":"caddy"}`)
	}
	mod, err := ctx.LoadModule(u.EndpointOptions, "StoreRaw")
	if err != nil {
		return fmt.Errorf("loading store: %w%s", err, BuildHint(stores.Namespace))
	}
	var ok bool
	if u.store, ok = mod.(stores.Store); !ok {
		return fmt.Errorf("store: %T is not a store", mod)
	}
	return nil
}

// newSharing returns what has the secrets of snapshots that instances share, or nil if the
// store is this instance's own.
func (u *upstream) newSharing() (*seal.Source[secret.Ring], error) {
	if _, shared := u.store.(stores.Shared); shared {
		return seal.NewSource("shared lists", u.SecretFile, func(ring secret.Ring) secret.Ring { return ring }, u.logger)
	}
	if u.SecretFile != "" && u.PageSize == 0 && !u.inToolkit {
		return nil, errors.New("secret_file: it seals the cursors of pages, and lists in a store that instances share: set page_size or such a store, or leave it out")
	}
	return nil, nil
}

// findFeedHost finds out the Host of the feed's requests, if the Hosts of clients' requests
// reach the server.
func (u *upstream) findFeedHost() error {
	for _, host := range u.SameHosts {
		if !IsHost(host) {
			return fmt.Errorf("same_hosts: %q is not a name or address, with or without a port", host)
		}
	}
	if !upstreamconfig.PassesHost(u.handler) {
		if u.Host != "" || u.SameHosts != nil {
			return errors.New("host: the server is sent a Host of its own already, whatever the feed and the clients send; " +
				"leave host out, or the header_up Host, the transport or the upstream URL that sets it")
		}
		return nil
	}
	_, address, _ := strings.Cut(u.urls[0], "://")
	address, _, _ = strings.Cut(address, "/")
	u.feedHost = origin.FoldHost(cmp.Or(u.Host, address))
	return nil
}

// acquire takes the backend that key stands for, or makes it. telling are the names of the
// placeholders that tell callers apart.
func (u *upstream) acquire(config upstreamconfig.Config, key []byte, telling []string) error {
	placeholders := config.Placeholders()
	u.backend = &backend.Tenant{
		Upstream: u.handler, Settings: u.settings.backend, Placeholders: placeholders, Store: u.store, Logger: u.logger,
		Sleeper: u.sleeper(),
		Identity: identity.Rules{
			Partition: u.settings.partition, Harmless: u.settings.harmless, Host: u.feedHost, SameHosts: folded(u.SameHosts),
			Original: identity.TellsOriginal(placeholders), Telling: telling,
			FeedValues: u.feedValues(telling), MessagesOnly: u.program != nil,
		},
	}
	if config.MayDifferElsewhere() {
		u.backend.Instance = u.app.instance
	}
	if u.sharing != nil {
		u.backend.Secrets = u.sharing.Await
	}
	sum := sha256.Sum256(key)
	if err := u.backend.Acquire(pool, hex.EncodeToString(sum[:]), u.urls[0]); err != nil {
		return err
	}
	if u.program != nil {
		u.program.ShareMemory(u.backend.Messages)
	}
	return nil
}

// feedValues returns the values that the feeds' requests have for the placeholders of the
// option partition and of the upstream.
func (u *upstream) feedValues(telling []string) map[string]string {
	values := make(map[string]string)
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, u.urls[0], http.NoBody)
	if err != nil {
		return values // no feed can send it
	}
	r.Host = cmp.Or(u.settings.backend.Host, r.Host)
	r.Header.Set("User-Agent", version.Agent())
	replacer := caddy.NewReplacer()
	caddyhttp.PrepareRequest(r, replacer, nil, new(caddyhttp.Server))
	for _, text := range u.settings.partition {
		values[text] = replacer.ReplaceAll(text, "")
	}
	for _, name := range telling {
		values[name], _ = replacer.GetString(name)
	}
	return values
}

// folded returns Hosts in lower case and in order.
func folded(hosts []string) (in []string) {
	for _, host := range hosts {
		in = append(in, origin.FoldHost(host))
	}
	slices.Sort(in)
	return in
}

// feedKey returns the part of the configuration, besides the guard, that the backend depends
// on. A reload that does not change it keeps the backend.
func (u *upstream) feedKey(config upstreamconfig.Config, telling []string) ([]byte, error) {
	eras := make([]string, 0, 1) // none for both, however they are written
	for _, era := range u.settings.backend.Feed.Eras {
		eras = append(eras, era.String())
	}
	key, err := json.Marshal(struct {
		Upstream  any
		Guard     json.RawMessage
		Endpoint  string
		Scope     string
		Partition []string
		Always    bool     `json:",omitempty"`
		Harmless  []string `json:",omitempty"`
		Host      string   `json:",omitempty"`
		Telling   []string `json:",omitempty"`
		Eras      []string `json:",omitempty"`
		SameHosts []string `json:",omitempty"`
		Client    string   `json:",omitempty"`
	}{config.Key(stdio.Limits), u.GuardRaw, u.Endpoint, u.Scope, u.Partition, u.ScopeAlways, slices.Sorted(maps.Keys(u.settings.harmless)), u.Host, telling, eras, folded(u.SameHosts), u.ClientName})
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	return key, nil
}

// servesAll takes over what is so of every program: it is given nothing by which it could tell callers
// apart, or refuse one.
func (u *upstream) servesAll() {
	u.settings.backend.AdmitAll = true
	if u.Scope == "" && len(u.settings.partition) == 0 {
		u.settings.backend.Feed.PublicByDefault = true
	}
}

// sleeper returns the server if it sleeps; nil if it does not, or how long lists are fresh was said.
func (u *upstream) sleeper() backend.Sleeper {
	if u.program != nil && u.TTL == 0 && len(u.TTLByKind) == 0 {
		return u.program
	}
	return nil
}
