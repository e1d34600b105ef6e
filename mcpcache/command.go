package mcpcache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/demo"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "mcp-cache",
		Usage: "<command>",
		Short: "Runs a cache in front of an MCP server",
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(newServeCommand(), newCheckCommand())
			addOperatorCommands(cmd)
		},
	})
}

const (
	defaultFrom = "127.0.0.1:8080"

	// serveGrace is how long requests in flight may go on after Ctrl-C.
	// Without a limit, an open event stream would keep the process alive.
	serveGrace = 3 * time.Second
)

func newServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [--from <address>] [--to <url>]",
		Short: "Caches an MCP server without a Caddyfile",
		Long: `
Listens on the --from address, plain HTTP, and caches the lists of the MCP
server at the --to URL. Without --to it starts a small demo MCP server on a
free loopback port and caches that. It prints commands to try it with.

The --to URL is that of the MCP endpoint, such as http://127.0.0.1:3001/mcp.
The cache answers on the same path. A URL without a path means /mcp. All
options have their defaults; write a Caddyfile to choose others.

Caddy's admin API gets its usual address. If that is taken, as it is when
another Caddy runs on this machine, it gets a free port of 127.0.0.1.
`,
		Args: cobra.NoArgs,
		RunE: caddycmd.WrapCommandFuncForCobra(cmdServe),
	}
	cmd.Flags().StringP("from", "f", defaultFrom, "Address to listen on, as host:port or :port. Port 0: a free one")
	cmd.Flags().StringP("to", "t", "", "URL of the MCP server. Default: a built-in demo server")
	return cmd
}

// cmdServe runs until the process is told to end, or the demo server fails.
func cmdServe(flags caddycmd.Flags) (int, error) {
	caddy.TrapSignals()
	ctx := context.Background()

	from, err := freeAddress(ctx, flags.String("from"))
	if err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("checking --from: %w", err)
	}
	admin, err := adminAddress(ctx, caddy.DefaultAdminListen)
	if err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("choosing an address for the admin API: %w", err)
	}
	to, wait := flags.String("to"), func() error { select {} }
	what := "the MCP server"
	if to == "" {
		server, err := demo.Start(ctx)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		defer func() { _ = server.Close() }() // the process ends
		to, wait, what = server.URL(), server.Wait, "the built-in demo server"
	}
	config, err := serveConfig(from, to, admin)
	if err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("checking --to: %w", err)
	}
	if err := caddy.Load(config, true); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	endpoint, err := endpointURL(from, to)
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	fmt.Fprintf(os.Stdout, "\nmcp_cache is at %s, in front of %s at %s.\nCaddy's admin API is at %s.\n%s",
		endpoint, what, to, admin, suggestions(endpoint))
	go showProgress(ctx, os.Stdout, isTerminal(os.Stdout), caddy.Log())
	return caddy.ExitCodeFailedQuit, wait()
}

// serveConfig returns the JSON configuration of a Caddy that listens on from
// and caches the MCP server at the URL to. The directive makes it, so that a
// URL means here what it means in a Caddyfile.
func serveConfig(from, to, admin string) ([]byte, error) {
	adapter := caddyconfig.GetAdapter("caddyfile")
	if adapter == nil {
		return nil, errors.New("this Caddy is built without Caddyfiles")
	}
	if strings.Contains(to, "`") {
		return nil, errors.New("a URL has no backquote")
	}
	host, port, err := net.SplitHostPort(from)
	if err != nil {
		return nil, err
	}
	bind := ""
	if host != "" {
		bind = "bind " + host
	}
	caddyfile := fmt.Sprintf(serveCaddyfile, admin, serveGrace, port, bind, to)
	config, _, err := adapter.Adapt([]byte(caddyfile), nil)
	return config, err
}

// serveCaddyfile lacks the address of the admin API, the grace period, the
// port, a line that binds a host, and the upstream's URL.
const serveCaddyfile = `{
	admin ` + "`%s`" + `
	persist_config off
	grace_period %s
}
http://:%s {
	%s
	mcp_cache ` + "`%s`" + `
}
`

// freeAddress returns address, with a port if it asked for a free one, or an
// error if nobody can listen on it. Caddy itself would not notice that another
// Caddy has the address: it shares ports (SO_REUSEPORT) to reload smoothly.
func freeAddress(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%q is not host:port or :port", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("port %q is not a number from 0 to 65535", port)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	_, port, err = net.SplitHostPort(listener.Addr().String())
	return net.JoinHostPort(host, port), errors.Join(err, listener.Close())
}

// adminAddress returns the usual address of the admin API if it is free, else
// one on a free loopback port.
func adminAddress(ctx context.Context, usual string) (string, error) {
	address, err := caddy.ParseNetworkAddress(usual)
	if err != nil {
		return "", err
	}
	if address.IsUnixNetwork() {
		return usual, nil
	}
	if _, err := freeAddress(ctx, address.JoinHostPort(0)); err == nil {
		return usual, nil
	}
	return freeAddress(ctx, "127.0.0.1:0")
}

// endpointURL returns the URL that clients on this machine use when the server
// listens on from and its upstream is at the URL to. It contains no single
// quote.
func endpointURL(from, to string) (string, error) {
	host, port, err := net.SplitHostPort(from)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	upstream, err := url.Parse(to)
	if err != nil {
		return "", err
	}
	endpoint := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: orDefault(upstream.Path, defaultEndpoint)}
	return endpoint.String(), nil
}

// suggestions returns what to try with the cache at endpoint, which endpointURL
// has made: commands for a POSIX shell, to be pasted as they are.
func suggestions(endpoint string) string {
	return strings.ReplaceAll(suggested, "{url}", endpoint)
}

const suggested = `
Point an MCP client at it, or paste these lines into a shell. The Cache-Status
header of an answer tells whether it came from the cache.

# MCP 2026-07-28: lists the tools twice. The server has to accept a caller once
# before the cache answers, so the second answer is the hit.
for try in 1 2; do curl -si '{url}' \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' \
  -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/list' \
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
echo; done

# MCP 2025-11-25: opens a session and lists the tools in it.
session=$(curl -s -o /dev/null -D - '{url}' \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' \
  -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}' |
  tr -d '\r' | awk -F ': ' 'tolower($1) == "mcp-session-id" { print $2 }')
curl -s '{url}' \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' \
  -H "Mcp-Session-Id: $session" -H 'MCP-Protocol-Version: 2025-11-25' \
  -d '{"jsonrpc":"2.0","method":"notifications/initialized"}'
curl -si '{url}' \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' \
  -H "Mcp-Session-Id: $session" -H 'MCP-Protocol-Version: 2025-11-25' \
  -d '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
echo

`
