package caddyfile

import (
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/caddystore"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/off"
)
