package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-mcp/mcp-cache"
)

// site is a server in a Caddy.
type site struct {
	addr string
	// body is what its block holds.
	body string
}

// caddyfile writes the configuration of a Caddy that keeps its files in a
// folder. More are global options.
func caddyfile(folder string, sites []site, more string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n\tadmin off\n\tpersist_config off\n\tauto_https off\n\tstorage file_system %s\n", folder)
	fmt.Fprintf(&b, "\tlog default {\n\t\toutput stderr\n\t\tlevel ERROR\n\t}\n%s}\n", more)
	for _, s := range sites {
		_, port, _ := strings.Cut(s.addr, ":")
		fmt.Fprintf(&b, "http://:%s {\n\tbind 127.0.0.1\n%s\n}\n", port, s.body)
	}
	return []byte(b.String())
}

// runCaddy runs a Caddy. Argument: its Caddyfile.
func runCaddy(args []string) error {
	source, err := os.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("reading Caddyfile: %w", err)
	}
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(source, map[string]any{"filename": args[0]})
	if err != nil {
		return fmt.Errorf("adapting Caddyfile: %w", err)
	}
	if err := caddy.Load(config, true); err != nil {
		return fmt.Errorf("starting Caddy: %w", err)
	}
	defer func() { _ = caddy.Stop() }() // the process ends anyway
	return serveControl(&Server{})
}
