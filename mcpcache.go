// Package mcpcache builds the mcp_cache handler, its Caddyfile directive and
// its guests into a Caddy:
//
//	xcaddy build --with github.com/caddy-mcp/mcp-cache
//
// It holds no code; the handler's story is in the package mcpcache/mcpcache.
package mcpcache

import (
	// The parts of the module, each of which registers itself with Caddy.
	_ "github.com/caddy-mcp/mcp-cache/caddyfile"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/admin"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/command"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/guards/bearer"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/guards/jwt"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/guards/oauth"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/caddystore"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/off"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/transports"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/transports/stdio"
)
