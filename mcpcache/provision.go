package mcpcache

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/reported"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/telemetry"
)

// Provision sets the handler up. It reaches nothing outside the process but a secret
// file: the feeds start when the whole configuration has.
func (h *Handler) Provision(ctx caddy.Context) error {
	if err := h.provision(ctx); err != nil {
		return err
	}
	h.reported = h.sources()
	for _, source := range h.reported {
		report.Live.Add(source)
	}
	return nil
}

func (h *Handler) provision(ctx caddy.Context) error {
	if len(h.Servers) > 0 {
		h.several = &several{options: h.options(), ToolkitOptions: &h.ToolkitOptions, logger: ctx.Logger()}
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

// sources returns the parts of a handler that operators see.
func (h *Handler) sources() (all []report.Source) {
	if h.several == nil {
		return []report.Source{h.one.reported}
	}
	toolkit := &reported.Toolkit{Endpoint: h.several.endpoint, Counted: h.several.telemetry, Rules: h.several.rules}
	for _, u := range h.several.servers {
		all, toolkit.Of = append(all, u.reported), append(toolkit.Of, u.reported)
	}
	return append(all, toolkit)
}

// Cleanup gives back what Provision took. Requests under way are not harmed: the backend
// stays as long as another configuration uses it, and a request that finds it closed is
// forwarded.
func (h *Handler) Cleanup() error {
	for _, source := range h.reported {
		report.Live.Remove(source, telemetry.Forget)
	}
	h.reported = nil
	switch {
	case h.several != nil:
		return h.several.cleanup()
	case h.one != nil:
		return h.one.cleanup()
	}
	return nil
}
