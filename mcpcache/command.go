package mcpcache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/demo"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/probe"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
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
		Use:   "serve [--from <address>] [--to <url>] [--min-ttl <duration>]",
		Short: "Caches an MCP server without a Caddyfile",
		Long: `
Listens on the --from address, plain HTTP, and caches the lists of the MCP
server at the --to URL. Without --to it starts a small demo MCP server on a
free loopback port and caches that. It tells how far it has got, what is cached
and what is not, and prints commands to try it with.

The --to URL is that of the MCP endpoint, such as http://127.0.0.1:3001/mcp.
The cache answers on the same path. A URL without a path means /mcp, and one
without a scheme http, so 127.0.0.1:3001 is enough. --min-ttl is for servers
that send ttlMs 0. All other options have their defaults; write a Caddyfile to
choose others.

Warnings and errors are written to standard error. --log FILE has the whole
log, in JSON, written to a file; --log stderr, to standard error.

Caddy's admin API gets its usual address. If that is taken, as it is when
another Caddy runs on this machine, it gets a free port of 127.0.0.1.
`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			code, err := runServe(caddycmd.Flags{FlagSet: cmd.Flags()})
			return plainly(cmd, code, err)
		},
	}
	flags := cmd.Flags()
	flags.StringP("from", "f", defaultFrom, "Address to listen on, as host:port or :port. Port 0: a free one")
	flags.StringP("to", "t", "", "URL of the MCP server, or host:port. Default: a built-in demo server")
	flags.String("min-ttl", "", "The shortest time that lists are kept, whatever their ttlMs says, such as 1m. Default: ttlMs is obeyed")
	flags.String("log", "", "Where the whole log goes: a file, or stderr. Default: warnings and errors to standard error")
	return cmd
}

// serving is what serve is asked for.
type serving struct {
	from  string // to listen on
	admin string // address of the admin API
	to    string // URL of the upstream
	// minTTL is the option of that name; "" if it is not given.
	minTTL string
	// log is a file, "stderr", or "".
	log string
}

// runServe runs until the process is told to end, or the demo server fails.
func runServe(flags caddycmd.Flags) (int, error) {
	caddy.TrapSignals()
	hushCaddy()
	ctx := context.Background()
	s := serving{minTTL: flags.String("min-ttl"), log: flags.String("log")}
	if err := s.listenOn(ctx, flags.String("from")); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	if err := checkMinTTL(s.minTTL); err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("--min-ttl: %w", err)
	}
	wait, what := func() error { select {} }, "the MCP server"
	if to := flags.String("to"); to == "" {
		server, err := demo.Start(ctx)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		defer func() { _ = server.Close() }() // the process ends
		s.to, wait, what = server.URL(), server.Wait, "the built-in demo server"
	} else {
		u, err := upstreamAt(to)
		if err != nil {
			return caddy.ExitCodeFailedStartup, fmt.Errorf("--to: %w", err)
		}
		s.to = u
	}
	config, err := serveConfig(s)
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	if err := caddy.Load(config, true); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	endpoint, err := endpointURL(s.from, s.to)
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	fmt.Fprintf(os.Stdout, "mcp_cache is at %s, in front of %s at %s.\nCaddy's admin API is at %s.\n", endpoint, what, s.to, s.admin)
	go showProgress(ctx, os.Stdout, isTerminal(os.Stdout), caddy.Log(), guide{
		why:  func(ctx context.Context) string { return whyNot(ctx, s.to) },
		then: func(statuses []report.Status) string { return summary(statuses) + suggestions(endpoint, statuses) },
	})
	return caddy.ExitCodeFailedQuit, wait()
}

// listenOn chooses the addresses.
func (s *serving) listenOn(ctx context.Context, from string) (err error) {
	if s.from, err = freeAddress(ctx, from); err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	if s.admin, err = adminAddress(ctx, caddy.DefaultAdminListen); err != nil {
		return fmt.Errorf("choosing an address for the admin API: %w", err)
	}
	return nil
}

// upstreamAt returns the URL that an operator means.
func upstreamAt(to string) (string, error) {
	if u, err := url.Parse(to); err == nil && u.User != nil {
		return "", errors.New("the URL holds a user or password: write a Caddyfile with a guard, which gives the cache its credential")
	}
	u, err := probe.ParseURL(to)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

func checkMinTTL(text string) error {
	if text == "" {
		return nil
	}
	d, err := caddy.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no duration such as 1m", text)
	case d < 0 || d > defaultMaxTTL:
		return fmt.Errorf("%q is not from 0 to %s", text, defaultMaxTTL)
	}
	return nil
}

// serveConfig returns the JSON configuration of a Caddy that serves that. The
// directive makes it, so that a URL means here what it means in a Caddyfile.
func serveConfig(s serving) ([]byte, error) {
	adapter := caddyconfig.GetAdapter("caddyfile")
	if adapter == nil {
		return nil, errors.New("this Caddy is built without Caddyfiles")
	}
	if strings.Contains(s.to+s.log+s.minTTL, "`") {
		return nil, errors.New("a backquote cannot be part of a URL, a file's name or a duration here")
	}
	host, port, err := net.SplitHostPort(s.from)
	if err != nil {
		return nil, err
	}
	bind, options := "", ""
	if host != "" {
		bind = "bind " + host
	}
	if s.minTTL != "" {
		options = " {\n\t\tmin_ttl `" + s.minTTL + "`\n\t}"
	}
	caddyfile := fmt.Sprintf(serveCaddyfile, s.admin, serveGrace, logOptions(s.log), port, bind, s.to, options)
	config, _, err := adapter.Adapt([]byte(caddyfile), nil)
	if err != nil {
		return nil, errors.New(inCaddyfile.ReplaceAllString(err.Error(), ""))
	}
	return config, nil
}

// inCaddyfile is what the adapter's errors say of a Caddyfile that nobody has
// written.
var inCaddyfile = regexp.MustCompile(`^parsing caddyfile tokens for '[^']*': |,? (?:at|in) Caddyfile:\d+$`)

// logOptions are those of Caddy's log.
func logOptions(log string) string {
	switch log {
	case "":
		return "output stderr\n\t\tlevel WARN\n\t\tformat console {\n\t\t\ttime_format wall\n\t\t\tlevel_format upper\n\t\t}"
	case "stderr":
		return "output stderr\n\t\tformat json"
	}
	return "output file `" + log + "`\n\t\tformat json"
}

// serveCaddyfile lacks the address of the admin API, the grace period, the
// options of the log, the port, a line that binds a host, the upstream's URL and
// the options of the directive.
const serveCaddyfile = `{
	admin ` + "`%s`" + `
	persist_config off
	grace_period %s
	auto_https off
	servers {
		protocols h1
	}
	log {
		%s
	}
}
http://:%s {
	%s
	mcp_cache ` + "`%s`" + `%s
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
