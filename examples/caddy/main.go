// Command caddy is a Caddy with its standard modules and mcp_cache: what
// xcaddy would build.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-mcp/mcp-cache"
)

func main() {
	caddycmd.Main()
}
