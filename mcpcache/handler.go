package mcpcache

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler answers MCP list requests from memory and hands everything else to
// an upstream handler, usually `reverse_proxy`. See the package documentation
// for its guarantees.
//
// In front of one server, `upstream` reaches it. In front of several, `servers` names them: then
// [ServerOptions] belong to each of the servers, and the handler has the [ToolkitOptions].
type Handler struct {
	ServerOptions
	SharedOptions
	EndpointOptions
	OneServerOptions
	ToolkitOptions

	one     *upstream // in front of one server; nil otherwise
	several *several  // in front of several; nil otherwise

	reported []report.Source // to operators, as long as the handler is set up
}

// options returns the handler's options. In front of several servers, those of the servers are
// not among them.
func (h *Handler) options() options {
	return options{&h.ServerOptions, &h.SharedOptions, &h.EndpointOptions, &h.OneServerOptions}
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.several != nil {
		return h.several.endpoint.ServeHTTP(w, r, next)
	}
	return h.one.endpoint.ServeHTTP(w, r, next)
}

// CaddyModule returns the Caddy module information. Caddy asks for it at any
// time, also while Cleanup runs, so it must not copy the handler.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.mcp_cache",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
