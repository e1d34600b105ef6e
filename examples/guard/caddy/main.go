// Command caddy is a Caddy with its standard modules, mcp_cache and the guard of
// this example: what xcaddy would build.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-mcp/mcp-cache"
	_ "github.com/caddy-mcp/mcp-cache/examples/guard"
)

func main() {
	caddycmd.Main()
}
