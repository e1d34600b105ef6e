package mcpcache

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cursor"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Provision sets the handler up. It reaches nothing outside the process but a secret
// file: the feeds start when the whole configuration has.
func (h *Handler) Provision(ctx caddy.Context) error {
	if len(h.Servers) > 0 {
		h.several = &several{Handler: h, logger: ctx.Logger()}
		return h.several.provision(ctx)
	}
	if names := given(h.ToolkitOptions); names != nil {
		return fmt.Errorf("%s: only with several servers", strings.Join(names, ", "))
	}
	h.one = &upstream{options: h.options(), logger: ctx.Logger()}
	cursors, err := h.one.newCursors()
	if err != nil {
		return err
	}
	if err := h.one.provision(ctx, ""); err != nil {
		return err
	}
	h.one.answer(ctx, cursors)
	return h.one.attach(ctx)
}

// Cleanup gives back what Provision took. Requests under way are not harmed: the backend
// stays as long as another configuration uses it, and a request that finds it closed is
// forwarded.
func (h *Handler) Cleanup() error {
	switch {
	case h.several != nil:
		return h.several.cleanup()
	case h.one != nil:
		return h.one.cleanup()
	}
	return nil
}

// answer makes the endpoint in front of one server. cursors is nil if lists are one page.
func (u *upstream) answer(ctx caddy.Context, cursors *seal.Source[*cursor.Sealer]) {
	u.endpoint = exchange.New(u.settings.exchange, u.backend, u.telemetry.Requests(), u.logger)
	if u.addressFromRequest != "" {
		u.endpoint.Remarks.Make("which server is asked depends on the request, so the feed cannot know it: lists are kept for each caller alone; "+
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

// warnOfPrograms warns if everybody who reaches the handler of that name uses those programs, and
// nobody has said that this is meant: no door lets callers in, and no handler in front does.
func warnOfPrograms(logger *zap.Logger, o *EndpointOptions, handler string, programs ...string) {
	if len(programs) > 0 && o.Admit != admitAll {
		logger.Warn("whoever reaches this handler uses the program, with the rights of Caddy: if handlers in front of it let callers in, or everybody may use it, say so with admit all",
			zap.String("handler", handler), zap.Strings("programs", programs))
	}
}

func eventsApp(ctx caddy.Context) (*caddyevents.App, error) {
	loaded, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("loading the events app: %w", err)
	}
	return loaded.(*caddyevents.App), nil
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
