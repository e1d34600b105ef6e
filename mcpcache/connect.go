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
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cursor"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstreamconfig"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/transports/stdio"
)

// connect loads the guests, and takes the backend of the server that they reach.
func (h *Handler) connect(ctx caddy.Context, name string) error {
	config := upstreamconfig.Read(h.UpstreamRaw)
	telling := config.Telling(h.settings.harmless, h.settings.partition)
	if name != "" && len(telling) > 0 {
		return fmt.Errorf("upstream: it is sent values of the request, {%s}; of those, a server of a toolkit is sent what its options authorization and headers say", strings.Join(telling, "}, {"))
	}
	h.keepApart(telling)
	key, err := h.feedKey(config, telling)
	if err != nil {
		return err
	}
	h.read(config)
	if err := h.loadGuests(ctx); err != nil {
		return err
	}
	if h.sharing, err = h.newSharing(name != ""); err != nil {
		return err
	}
	if err := h.findFeedHost(); err != nil {
		return err
	}
	h.settings.backend.Addresses = upstreamconfig.Addresses(h.upstream)
	h.settings.backend.Feed.Guard = h.guard
	if h.guard != nil {
		key = append(key, h.guard.Identity()...)
	}
	if h.program != nil {
		key = append(key, h.program.Identity()...)
	}
	loaded, err := ctx.App("mcp_cache")
	if err != nil {
		return fmt.Errorf("loading the app that starts the feeds: %w", err)
	}
	h.app = loaded.(*app)
	return h.acquire(config, key, telling)
}

// read takes over what the configuration of the upstream says of the server.
func (h *Handler) read(config upstreamconfig.Config) {
	feed := &h.settings.backend.Feed
	h.addressFromRequest = config.AddressFromRequest()
	feed.Blind = h.addressFromRequest != ""
	feed.Sent = config.Credentials()
	h.settings.exchange.LendsCredentials = upstreamconfig.AnyShared(feed.Sent)
	urls, direct := config.URLs(h.settings.exchange.Path)
	h.endpointURL, h.replicaURLs = urls[0], urls
	if direct {
		feed.Endpoint = h.endpointURL
	}
}

// keepApart has callers be told apart by the placeholders that the upstream uses. The lists
// that the feed is given without their values are nobody's. If the operator says that callers
// share lists, they are for callers without these values.
func (h *Handler) keepApart(telling []string) {
	if len(telling) == 0 {
		return
	}
	feed := &h.settings.backend.Feed
	feed.FeedOnly = true
	const harmless = "if not, and if they are put in headers, name these headers after harmless"
	if slices.ContainsFunc(telling, func(name string) bool { return !upstreamconfig.Named(name, h.settings.partition) }) {
		h.logger.Info("the upstream is sent values of the request: lists are kept for each of them, also public ones; "+
			"that is right if the server goes by them; "+harmless, zap.Strings("placeholders", telling))
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
	if h.program = upstreamconfig.ProgramOf(h.upstream); h.program != nil {
		h.program.OriginsAreChecked() // by this handler, which knows which are let in
		h.servesAll()
	}
	if err := h.loadStore(ctx); err != nil {
		return err
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

// loadStore loads the store.
func (h *Handler) loadStore(ctx caddy.Context) error {
	if h.StoreRaw == nil {
		h.StoreRaw = json.RawMessage(`{"store":"caddy"}`)
	}
	mod, err := ctx.LoadModule(h, "StoreRaw")
	if err != nil {
		return fmt.Errorf("loading store: %w%s", err, BuildHint(stores.Namespace))
	}
	var ok bool
	if h.store, ok = mod.(stores.Store); !ok {
		return fmt.Errorf("store: %T is not a store", mod)
	}
	return nil
}

// newCursors returns what seals the handler's cursors, or nil if there are none.
func (h *Handler) newCursors() (*seal.Source[*cursor.Sealer], error) {
	switch {
	case h.PageSize < 0 || h.PageSize > MostPageSize:
		return nil, fmt.Errorf("page_size: %d is not a whole number from 0, for one page, to %d", h.PageSize, MostPageSize)
	case h.PageSize == 0:
		return nil, nil
	}
	return seal.NewSource("cursors", h.SecretFile, cursor.NewSealer, h.logger)
}

// newSharing returns what has the secrets of snapshots that instances share, or nil if the
// store is this instance's own.
func (h *Handler) newSharing(inToolkit bool) (*seal.Source[secret.Ring], error) {
	if _, shared := h.store.(stores.Shared); shared {
		return seal.NewSource("shared lists", h.SecretFile, func(ring secret.Ring) secret.Ring { return ring }, h.logger)
	}
	if h.SecretFile != "" && h.PageSize == 0 && !inToolkit {
		return nil, errors.New("secret_file: it seals the cursors of pages, and lists in a store that instances share: set page_size or such a store, or leave it out")
	}
	return nil, nil
}

// findFeedHost finds out the Host of the feed's requests, if the Hosts of clients' requests
// reach the server.
func (h *Handler) findFeedHost() error {
	for _, host := range h.SameHosts {
		if !IsHost(host) {
			return fmt.Errorf("same_hosts: %q is not a name or address, with or without a port", host)
		}
	}
	if !upstreamconfig.PassesHost(h.upstream) {
		if h.Host != "" || h.SameHosts != nil {
			return errors.New("host: the server is sent a Host of its own already, whatever the feed and the clients send; " +
				"leave host out, or the header_up Host, the transport or the upstream URL that sets it")
		}
		return nil
	}
	_, address, _ := strings.Cut(h.endpointURL, "://")
	address, _, _ = strings.Cut(address, "/")
	h.feedHost = origin.FoldHost(cmp.Or(h.Host, address))
	return nil
}

// acquire takes the backend that key stands for, or makes it. telling are the names of the
// placeholders that tell callers apart.
func (h *Handler) acquire(config upstreamconfig.Config, key []byte, telling []string) error {
	placeholders := config.Placeholders()
	h.backend = &backend.Tenant{
		Upstream: h.upstream, Settings: h.settings.backend, Placeholders: placeholders, Store: h.store, Logger: h.logger,
		Sleeper: h.sleeper(),
		Identity: identity.Rules{
			Partition: h.settings.partition, Harmless: h.settings.harmless, Host: h.feedHost, SameHosts: folded(h.SameHosts),
			Original: identity.TellsOriginal(placeholders), Telling: telling,
			FeedValues: h.feedValues(telling), MessagesOnly: h.program != nil,
		},
	}
	if config.MayDifferElsewhere() {
		h.backend.Instance = h.app.instance
	}
	if h.sharing != nil {
		h.backend.Secrets = h.sharing.Await
	}
	sum := sha256.Sum256(key)
	if err := h.backend.Acquire(pool, hex.EncodeToString(sum[:]), h.endpointURL); err != nil {
		return err
	}
	if h.program != nil {
		h.program.ShareMemory(h.backend.Messages)
	}
	return nil
}

// feedValues returns the values that the feeds' requests have for the placeholders of the
// option partition and of the upstream.
func (h *Handler) feedValues(telling []string) map[string]string {
	values := make(map[string]string)
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, h.endpointURL, http.NoBody)
	if err != nil {
		return values // no feed can send it
	}
	r.Host = cmp.Or(h.settings.backend.Host, r.Host)
	r.Header.Set("User-Agent", version.Agent())
	replacer := caddy.NewReplacer()
	caddyhttp.PrepareRequest(r, replacer, nil, new(caddyhttp.Server))
	for _, text := range h.settings.partition {
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
func (h *Handler) feedKey(config upstreamconfig.Config, telling []string) ([]byte, error) {
	eras := make([]string, 0, 1) // none for both, however they are written
	for _, era := range h.settings.backend.Feed.Eras {
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
	}{config.Key(stdio.Limits), h.GuardRaw, h.Endpoint, h.Scope, h.Partition, h.ScopeAlways, slices.Sorted(maps.Keys(h.settings.harmless)), h.Host, telling, eras, folded(h.SameHosts), h.ClientName})
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	return key, nil
}

// servesAll takes over what is so of every program: it is given nothing by which it could tell callers
// apart, or refuse one.
func (h *Handler) servesAll() {
	h.settings.backend.AdmitAll = true
	if h.Scope == "" && len(h.settings.partition) == 0 {
		h.settings.backend.Feed.PublicByDefault = true
	}
}

// sleeper returns the server if it sleeps; nil if it does not, or how long lists are fresh was said.
func (h *Handler) sleeper() backend.Sleeper {
	if h.program != nil && h.TTL == 0 && len(h.TTLByKind) == 0 {
		return h.program
	}
	return nil
}
