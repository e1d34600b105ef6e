package upstreamconfig

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

// Program is a server that is a program on standard input and output. The transport stdio
// implements it.
type Program interface {
	backend.Sleeper
	report.Program
	// String returns the program's command, as configured.
	fmt.Stringer
	// Identity returns bytes that differ between programs of the same configuration. A program
	// may act for another account once its secrets have changed.
	Identity() []byte
	// OriginsAreChecked says that the handler in front rejects requests of foreign pages.
	OriginsAreChecked()
	// ShareMemory has messages on their way take memory from room.
	ShareMemory(room *budget.Room)
}

// ProgramOf returns the program that a loaded handler runs, or nil.
func ProgramOf(upstream caddyhttp.MiddlewareHandler) Program {
	if proxy, ok := upstream.(*reverseproxy.Handler); ok {
		if p, ok := proxy.Transport.(Program); ok {
			return p
		}
	}
	return nil
}

// Key returns the configuration in a form for [json.Marshal] that is the same for the same server.
// limits are the options of the transport stdio that may change while a program goes on: Key
// leaves them out.
func (c Config) Key(limits []string) any {
	var proxy map[string]any
	if json.Unmarshal(c.raw, &proxy) != nil || !runsProgram(proxy["transport"]) {
		return c.raw
	}
	for _, name := range limits {
		delete(proxy["transport"].(map[string]any), name)
	}
	return proxy
}

// runsProgram reports whether a transport runs a program.
func runsProgram(transport any) bool {
	v, _ := transport.(map[string]any)
	return v["protocol"] == "stdio"
}
