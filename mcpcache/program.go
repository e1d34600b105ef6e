package mcpcache

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/transports/stdio"
)

// program is an upstream that is a program.
type program interface {
	backend.Sleeper
	report.Program
	// String is its command, as configured.
	fmt.Stringer
	// Identity tells the program from others of the same configuration: it may act for another
	// account once its secrets have changed.
	Identity() []byte
	// OriginsAreChecked says that requests of foreign pages are refused in front of it.
	OriginsAreChecked()
	// ShareMemory has messages on their way take that memory.
	ShareMemory(room *budget.Room)
}

// programOf returns the upstream as a program, nil if it is none.
func programOf(upstream caddyhttp.MiddlewareHandler) program {
	if proxy, ok := upstream.(*reverseproxy.Handler); ok {
		if p, ok := proxy.Transport.(program); ok {
			return p
		}
	}
	return nil
}

// withoutLimits returns the configuration of an upstream. If it is a program, what may change while
// that goes on is left out.
func withoutLimits(raw json.RawMessage) any {
	var proxy map[string]any
	if json.Unmarshal(raw, &proxy) != nil || !runsProgram(proxy["transport"]) {
		return raw
	}
	for _, name := range stdio.Limits {
		delete(proxy["transport"].(map[string]any), name)
	}
	return proxy
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
	if p := programOf(h.upstream); p != nil && h.TTL == 0 && len(h.TTLByKind) == 0 {
		return p
	}
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
