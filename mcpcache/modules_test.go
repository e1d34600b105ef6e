package mcpcache

import (
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/guards/bearer"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/caddystore" // the default
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/off"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/transports"
)
