package mcpcache

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cursor"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/reported"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/ruleset"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/telemetry"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstreamconfig"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/transports/stdio"
)

// pool holds the backends, which may outlive a configuration. See
// [backend.Ref.Acquire].
var pool = caddy.NewUsagePool()

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

	backend   *backend.Ref
	telemetry *telemetry.Telemetry
	endpoint  *exchange.Endpoint // nil in a toolkit, which has one for all of its servers
	reported  *reported.Server
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

// answer makes the endpoint in front of one server. cursors is nil if lists are one page.
func (u *upstream) answer(ctx caddy.Context, cursors *seal.Source[*cursor.Sealer]) {
	u.endpoint = exchange.New(u.settings.exchange, u.backend, u.telemetry.Requests(), u.logger)
	if u.addressFromRequest != "" {
		u.endpoint.Warnings.Warn("which server is asked depends on the request, so the feed cannot know it: lists are kept for each caller alone; "+
			"a mcp_cache for each server, picked by matchers, shares them", "upstream", u.addressFromRequest)
	}
	if cursors != nil {
		u.endpoint.Paging = &exchange.Paging{Size: u.PageSize, Sealer: cursors.Sealer, Tried: cursors.Tried(), Server: u.urls[0]}
		cursors.Use(u.backend.Secret)
		u.app.onStart(func() { cursors.Start(ctx, ctx.Storage()) })
	}
	if u.rules != nil {
		u.watchRules(ctx, u.settings.exchange.Path)
		u.endpoint.Rules = u.rules
	}
	if u.program != nil {
		warnOfPrograms(u.logger, u.EndpointOptions, u.settings.exchange.Name, u.settings.exchange.Name)
	}
}

// attach has the feeds begin with the configuration.
func (u *upstream) attach(ctx caddy.Context) error {
	u.backend.Attach()
	u.reported = &reported.Server{
		Called: u.settings.exchange.Name, URLs: u.urls, Runs: u.program, Picked: u.addressFromRequest != "",
		Backend: u.backend, Counted: u.telemetry, Rules: u.rules,
	}
	if u.endpoint != nil {
		u.reported.Warnings = u.endpoint.Warnings
	}
	u.app.servers = append(u.app.servers, u.reported)
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
	u.telemetry.Stop()
	ended, err := u.backend.Release()
	u.app.backends.Done(ended)
	return err
}

// warnOfPrograms warns if everybody who reaches the handler of that name uses those programs, and
// nobody has said that this is meant: no door lets callers in, and no handler in front does.
func warnOfPrograms(logger *zap.Logger, o *EndpointOptions, handler string, programs ...string) {
	if len(programs) > 0 && o.Admit != admitAll {
		logger.Warn("whoever reaches this handler uses the program, with the rights of Caddy: if handlers in front of it let callers in, or everybody may use it, say so with admit all",
			zap.String("handler", handler), zap.Strings("programs", programs))
	}
}

// connect loads the guests, and takes the backend of the server that they reach.
func (u *upstream) connect(ctx caddy.Context) (err error) {
	config := upstreamconfig.Read(u.UpstreamRaw)
	telling := config.Telling(u.settings.harmless, u.settings.partition)
	if u.inToolkit && len(telling) > 0 {
		return fmt.Errorf("upstream: it is sent values of the request, {%s}; of those, a server of a toolkit is sent what its options authorization and headers say", strings.Join(telling, "}, {"))
	}
	u.keepApart(telling)
	key := u.key(config, telling) // the guard's part is gone once it is loaded
	u.read(config)
	if err = u.loadGuests(ctx); err != nil {
		return err
	}
	if u.sharing, err = u.newSharing(); err != nil {
		return err
	}
	if err = u.findFeedHost(); err != nil {
		return err
	}
	u.settings.backend.Addresses = upstreamconfig.Addresses(u.handler)
	u.settings.backend.Feed.Guard = u.guard
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
	feed.NoServer = u.addressFromRequest != ""
	feed.Sent = config.Credentials()
	u.settings.exchange.LendsCredentials = upstreamconfig.AnyShared(feed.Sent)
	var direct bool
	if u.urls, direct = config.URLs(u.settings.exchange.Path); direct {
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
func (u *upstream) loadGuests(ctx caddy.Context) (err error) {
	if u.handler, err = load[caddyhttp.MiddlewareHandler](ctx, u.ServerOptions, "UpstreamRaw", "upstream", "an HTTP handler"); err != nil {
		return err
	}
	if u.program = upstreamconfig.ProgramOf(u.handler); u.program != nil {
		u.program.OriginsAreChecked() // by this handler, which knows which are let in
		u.servesAll()
	}
	if u.StoreRaw == nil {
		u.StoreRaw = json.RawMessage(`{"store":"caddy"}`)
	}
	if u.store, err = load[stores.Store](ctx, u.EndpointOptions, "StoreRaw", "store", "a store"); err != nil {
		return fmt.Errorf("%w%s", err, BuildHint(stores.Namespace))
	}
	if u.GuardRaw != nil {
		u.guard, err = load[guards.Guard](ctx, u.ServerOptions, "GuardRaw", "guard", "a guard")
	}
	return err
}

// load loads the guest in a field of options. name and kind say in errors what it is.
func load[T any](ctx caddy.Context, options any, field, name, kind string) (guest T, err error) {
	module, err := ctx.LoadModule(options, field)
	if err != nil {
		return guest, fmt.Errorf("loading %s: %w", name, err)
	}
	guest, ok := module.(T)
	if !ok {
		return guest, fmt.Errorf("%s: %T is not %s", name, module, kind)
	}
	return guest, nil
}

// newCursors returns what seals the handler's cursors, or nil if there are none.
func (u *upstream) newCursors() (*seal.Source[*cursor.Sealer], error) {
	switch {
	case u.PageSize < 0 || u.PageSize > MostPageSize:
		return nil, fmt.Errorf("page_size: %d is not a whole number from 0, for one page, to %d", u.PageSize, MostPageSize)
	case u.PageSize == 0:
		return nil, nil
	}
	return seal.NewSource("cursors", u.SecretFile, cursor.NewSealer, u.logger)
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
func (u *upstream) acquire(config upstreamconfig.Config, key backend.Key, telling []string) error {
	placeholders := config.Placeholders()
	u.backend = &backend.Ref{
		Upstream: u.handler, Settings: u.settings.backend, Placeholders: placeholders, Store: u.store, Logger: u.logger,
		Sleeper: u.sleeper(),
		Identity: identity.Rules{
			Partition: u.settings.partition, Harmless: u.settings.harmless, Host: u.feedHost, SameHosts: origin.FoldHosts(u.SameHosts),
			Original: identity.TellsOriginal(placeholders), Telling: telling,
			FeedValues: backend.FeedValues(u.urls[0], u.settings.backend.Host, u.settings.partition, telling), MessagesOnly: u.program != nil,
		},
	}
	if config.MayDifferElsewhere() {
		u.backend.Instance = u.app.instance
	}
	if u.sharing != nil {
		u.backend.Secrets = u.sharing.Await
	}
	var identities []string
	if u.guard != nil {
		identities = append(identities, u.guard.Identity())
	}
	if u.program != nil {
		identities = append(identities, string(u.program.Identity()))
	}
	of, err := key.Of(identities...)
	if err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	if err := u.backend.Acquire(pool, of, u.urls[0]); err != nil {
		return err
	}
	if u.program != nil {
		u.program.ShareMemory(u.backend.Messages)
	}
	return nil
}

// key returns the part of the configuration that the backend depends on.
func (u *upstream) key(config upstreamconfig.Config, telling []string) backend.Key {
	return backend.Key{
		Upstream: config.Key(stdio.Limits), Guard: u.GuardRaw, Endpoint: u.Endpoint, Scope: u.Scope, Partition: u.Partition,
		Always: u.ScopeAlways, Harmless: slices.Sorted(maps.Keys(u.settings.harmless)), Host: u.Host, Telling: telling,
		Eras: revision.NamesOf(u.settings.backend.Feed.Eras), SameHosts: origin.FoldHosts(u.SameHosts), Client: u.ClientName,
	}
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
