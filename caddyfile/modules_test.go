package caddyfile

import (
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/guards/bearer"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/guards/jwt"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/guards/oauth"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/caddystore"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/off"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/transports/stdio"
)
