package mcpcache

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/ruleset"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/telemetry"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Provision sets the handler up. It reaches nothing outside the process but a secret
// file: the feeds start when the whole configuration has.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	if len(h.Servers) > 0 {
		return h.provisionToolkit(ctx)
	}
	if h.NameLimit != 0 {
		return errors.New("name_limit: only with several servers")
	}
	if h.Door != "" {
		return errors.New("door: only with several servers; one lets callers in itself")
	}
	if h.SessionTTL != 0 || h.MaxSessions != 0 {
		return errors.New("session_ttl, max_sessions: only with several servers, which have sessions of their own")
	}
	return h.provision(ctx, "")
}

// provision sets up what is in front of one server. With a name, it is that server of a
// toolkit, which answers the requests.
func (h *Handler) provision(ctx caddy.Context, name string) error {
	if h.UpstreamRaw == nil {
		return errors.New("upstream: missing; it is the handler that reaches the MCP server")
	}
	events, err := eventsApp(ctx)
	if err != nil {
		return err
	}
	if err := h.configure(ctx, name); err != nil {
		return err
	}
	if err := h.connect(ctx, name); err != nil {
		return err
	}
	h.app.backends.Add()
	h.telemetry = telemetry.New(ctx, events, h.settings.exchange.Name, h.app.inForce, h.logger)
	h.settings.backend.Feed.Observer = h.telemetry.Feeds()
	if name == "" {
		h.answer(ctx)
		if h.program != nil {
			h.warnOfPrograms(h.settings.exchange.Name)
		}
	}
	h.backend.Attach()
	report.Live.Add(reported{h})
	h.app.handlers = append(h.app.handlers, h)
	if err := telemetry.Register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if h.sharing != nil {
		h.app.onStart(func() { h.sharing.Start(ctx, ctx.Storage()) })
	}
	h.app.onStart(h.backend.Run)
	return nil
}

// warnOfPrograms warns if everybody who reaches the handler uses those programs, and nobody has said
// that this is meant: no door lets callers in, and it is not said that handlers in front do.
func (h *Handler) warnOfPrograms(names ...string) {
	if len(names) > 0 && h.Admit != admitAll {
		h.logger.Warn("whoever reaches this handler uses the program, with the rights of Caddy: if handlers in front of it let callers in, or everybody may use it, say so with admit all",
			zap.String("handler", h.settings.exchange.Name), zap.Strings("programs", names))
	}
}

func eventsApp(ctx caddy.Context) (*caddyevents.App, error) {
	loaded, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("loading the events app: %w", err)
	}
	return loaded.(*caddyevents.App), nil
}

// configure reads the options.
func (h *Handler) configure(ctx caddy.Context, name string) (err error) {
	if h.settings, err = h.newSettings(); err != nil {
		return err
	}
	if name != "" {
		h.logger = ctx.Logger().With(zap.String("server", h.Name))
		h.settings.exchange.Name = name
	}
	if h.rules, err = ruleset.Load(ctx, configured(h.Rules), h.Unlisted == unlistedAllow, h.logger); err != nil {
		return err
	}
	h.cursors, err = h.newCursors()
	return err
}

// answer makes the endpoint in front of one server.
func (h *Handler) answer(ctx caddy.Context) {
	h.endpoint = exchange.New(h.settings.exchange, h.backend, h.telemetry.Requests(), h.logger)
	if h.addressFromRequest != "" {
		h.endpoint.Remarks.Make("which server is asked depends on the request, so the feed cannot know it: lists are kept for each caller alone; "+
			"a mcp_cache for each server, picked by matchers, shares them", "upstream", h.addressFromRequest)
	}
	if h.cursors != nil {
		h.endpoint.Paging = &exchange.Paging{Size: h.PageSize, Sealer: h.cursors.Sealer, Tried: h.cursors.Tried(), Server: h.endpointURL}
		h.cursors.Use(h.backend.Secret)
		h.app.onStart(func() { h.cursors.Start(ctx, ctx.Storage()) })
	}
	if h.rules != nil {
		h.watchRules(ctx, h.settings.exchange.Path)
		h.endpoint.Rules = h.rules
	}
}

// watchRules tells the rules of one server which requests and lists they are about. path is the
// path of the endpoint.
func (h *Handler) watchRules(ctx caddy.Context, path string) {
	h.rules.Watch(path, h.telemetry.RuleFailed, func() []*catalog.List { return ruleset.ListsOf(h.backend.Feeds, h.backend.Cache) },
		h.settings.backend.Kinds.Has(revision.ResourceTemplates), h.logger)
	h.app.onStart(func() { go h.rules.Run(ctx) })
}

// BuildHint returns what to add to an error because of which a guest of that namespace may be
// missing: how those are built in that do not come with this package. It is "" if none is
// missing.
func BuildHint(namespace string) string {
	if _, err := caddy.GetModule(stores.Namespace + ".redis"); err == nil || namespace != stores.Namespace {
		return ""
	}
	return "; redis is built in with: xcaddy build --with " + version.Module + " --with " + version.Module + "/mcpcache/stores/redis"
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
	h.app.backends.Done(ended)
	return err
}
