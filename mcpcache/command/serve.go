package command

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/demo"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

const (
	defaultFrom = "127.0.0.1:8080"

	// serveGrace is how long requests in flight may go on after Ctrl-C.
	// Without a limit, an open event stream would keep the process alive.
	serveGrace = 3 * time.Second
)

func newServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [--from <address>] [--to <url|command>|--to <name>=<url|command>...|--mcp-config <file>] [--header <header>] [--min-ttl <duration>] [--print]",
		Short: "Caches an MCP server without a Caddyfile",
		Long:  serveHelp,
		Args:  wanted(0, 0, "name the MCP server with --to URL, such as: serve --to http://127.0.0.1:3001/mcp, or its command: serve --to 'npx -y NAME'"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			code, err := runServe(caddycmd.Flags{FlagSet: cmd.Flags()})
			return plainly(cmd, code, err)
		},
	}
	flags := cmd.Flags()
	flags.StringP("from", "f", defaultFrom, "Address to listen on, as host:port or :port. Port 0: a free one")
	flags.StringArrayP("to", "t", nil, "URL of the MCP server, host:port, a port of 127.0.0.1, or a command that runs it; of several servers each as name=URL or name=command (repeatable). Default: a built-in demo server")
	flags.String("mcp-config", "", "File with mcpServers or servers, as MCP clients have it, in the place of --to")
	flags.StringArrayP("header", "H", nil, `Header to send to the server, as "Name: value" (repeatable)`)
	flags.String("min-ttl", "", "The shortest time that lists are kept, whatever their ttlMs says, such as 1m. Default: ttlMs is obeyed")
	flags.String("log", "", "Where the whole log goes: a file, or stderr. Default: warnings and errors to standard error")
	flags.Bool("print", false, "Print a Caddyfile for all this, and end")
	return cmd
}

const serveHelp = `
Listens on the --from address, plain HTTP, and caches the lists of the MCP
server at the --to URL. Without --to it starts a small demo MCP server on a
free loopback port and caches that. It tells how far it has got, what is cached
and what is not, and prints commands to try it with.

The --to URL is that of the MCP endpoint, such as http://127.0.0.1:3001/mcp.
The cache answers on the same path. A URL without a path means /mcp, and one
without a scheme http, so 127.0.0.1:3001 is enough; 3001 alone is a port of
127.0.0.1. --min-ttl is for servers that send ttlMs 0. All other options have
their defaults; write a Caddyfile to choose others. --print prints one to start
from: with the values of headers and variables, as they are given.

A server that speaks on standard input and output is run by its command:
--to 'npx -y @modelcontextprotocol/server-everything stdio'. What has a space in
it, or begins with /, ./ or ../, is a command. It is split into words as a shell
does, but only quotes and backslashes count, and Caddy's placeholders, such as
{env.HOME}, are replaced. It runs in this directory, with HOME, PATH and a few
other variables. Whoever reaches the cache uses the program.

Several servers get a name each: --to docs=http://127.0.0.1:3001/mcp --to
github=3002 --to 'git=uvx mcp-server-git'. They are behind one endpoint, /mcp,
which has the lists of all; the tools of docs are called docs__NAME there. The
cache's pages say what else that means.

--mcp-config FILE takes several servers from a file as MCP clients have it, with
mcpServers or, in VS Code, servers: command, args, env and cwd, or url and
headers. Names get lower case, with - for what is none of a-z and 0-9. ${NAME}
is the variable NAME of the environment.

--header "Name: value" is sent to the server with each request, the cache's own
and those of clients, in the place of what a client sends under that name: to
try a server that asks for a token. Placeholders are replaced: with
"Authorization: Bearer {env.TOKEN}", the token is not in the list of processes.
Whoever reaches the cache acts with that token, so it has to listen on a
loopback address then, and keeps no list on disk. For more than a try, write a
Caddyfile with a guard. No value of a header is shown, but by --print.

Warnings and errors are written to standard error, but for those of the feeds
and of clients that go away: it tells how the feeds are. --log FILE has the whole
log, in JSON, written to a file; --log stderr, to standard error.

Caddy's admin API gets its usual address. If that is taken, as it is when
another Caddy runs on this machine, it gets a free port of 127.0.0.1.
`

// runServe runs until the process is told to end, or the demo server fails.
func runServe(flags caddycmd.Flags) (int, error) {
	caddy.TrapSignals()
	hushCaddy()
	ctx := context.Background()
	s, err := newServing(ctx, flags)
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	if flags.Bool("print") {
		return printServing(s)
	}
	wait, behind := func() error { select {} }, ""
	if s.servers[0].isDemo() {
		server, err := demo.Start(ctx)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		defer func() { _ = server.Close() }() // the process ends
		s.servers[0].url, wait = server.URL(), server.Wait
		behind = "the built-in demo server at " + server.URL()
	}
	config, err := s.config(inEnvironment())
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	if err := caddy.Load(config, true); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	endpoint, err := endpointURL(s.from, s.to())
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	fmt.Fprintf(os.Stdout, "mcp_cache is at %s, in front of %s.\n%s", endpoint, cmp.Or(behind, s.behind()), s.remarks())
	go func() {
		why := s.whyNot
		showProgress(ctx, os.Stdout, isTerminal(os.Stdout), caddy.Log(), guide{
			why:  why,
			late: late(s),
			then: func(statuses []report.Status) string { return summary(statuses) + suggestions(endpoint, statuses) },
		})
		watchFeeds(ctx, os.Stdout, caddy.Log(), why)
	}()
	return caddy.ExitCodeFailedQuit, wait()
}

// printServing prints the Caddyfile.
func printServing(s *serving) (int, error) {
	text, err := s.print()
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	if len(s.unused) > 0 {
		fmt.Fprintln(os.Stderr, s.ignored())
	}
	if _, err = fmt.Fprint(os.Stdout, text); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	return caddy.ExitCodeSuccess, nil
}

// late is said when no server has answered for a while.
func late(s *serving) string {
	switch {
	case s.isToolkit():
		return "No server has answered yet: see whether they hang. They are asked until they answer."
	case s.servers[0].command != nil:
		return "The program has not answered yet: it may install itself first, or hang. Its standard error is in the log (--log)."
	}
	return s.servers[0].url + " has not answered yet: see whether the server hangs. It is asked until it answers."
}
