// Command caddy is a Caddy with its standard modules, mcp_cache and all of its
// stores: what xcaddy would build.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-mcp/mcp-cache"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/redis"
)

func main() {
	caddycmd.Main()
}
