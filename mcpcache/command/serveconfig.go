package command

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// serveConfig returns the JSON configuration of a Caddy that serves that. The
// directive makes it, so that a URL means here what it means in a Caddyfile.
func serveConfig(s serving) ([]byte, error) {
	adapter := caddyconfig.GetAdapter("caddyfile")
	if adapter == nil {
		return nil, errors.New("this Caddy is built without Caddyfiles")
	}
	if strings.Contains(s.to+s.log+s.minTTL+fmt.Sprint(s.servers), "`") {
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
		options += "\n\t\tmin_ttl `" + s.minTTL + "`"
	}
	if len(s.header) > 0 {
		lines, err := headerOptions(s)
		if err != nil {
			return nil, err
		}
		options += lines
	}
	if options != "" {
		options = " {" + options + "\n\t}"
	}
	caddyfile := fmt.Sprintf(serveCaddyfile, s.admin, serveGrace, logOptions(s.log), port, bind, directive(s, options))
	config, _, err := adapter.Adapt([]byte(caddyfile), nil)
	if err != nil {
		return nil, errors.New(inCaddyfile.ReplaceAllString(err.Error(), ""))
	}
	return config, nil
}

// directive writes the directive; options is a block.
func directive(s serving, options string) string {
	if len(s.servers) == 0 {
		return "mcp_cache `" + s.to + "`" + options
	}
	var text strings.Builder
	text.WriteString("mcp_cache {")
	for _, server := range s.servers {
		fmt.Fprintf(&text, "\n\t\tserver `%s` `%s`%s", server.name, server.url, strings.ReplaceAll(options, "\n", "\n\t"))
	}
	return text.String() + "\n\t}"
}

// headerOptions has reverse_proxy send the headers, for the feed and for clients.
// What has been listed with one token is nothing for another one, so no list is
// stored. Caddy shows its configuration in the admin API and in errors: the values
// are in this process's environment instead.
func headerOptions(s serving) (string, error) {
	var lines strings.Builder
	lines.WriteString("\n\t\tstore off\n\t\treverse_proxy {")
	for i, name := range s.headerNames() {
		variable := fmt.Sprintf("MCP_CACHE_SERVE_HEADER_%d", i)
		if err := os.Setenv(variable, s.header.Get(name)); err != nil {
			return "", fmt.Errorf("keeping header %s: %w", name, err)
		}
		fmt.Fprintf(&lines, "\n\t\t\theader_up %s {env.%s}", name, variable)
	}
	lines.WriteString("\n\t\t}")
	return lines.String(), nil
}

// inCaddyfile is what the adapter's errors say of a Caddyfile that nobody has
// written.
var inCaddyfile = regexp.MustCompile(`^parsing caddyfile tokens for '[^']*': |,? (?:at|in) Caddyfile:\d+$`)

// saidOtherwise are the loggers whose warnings people need not see: how the feeds
// are, serve says itself; that a client has closed its stream is nothing unusual.
const saidOtherwise = "http.handlers.mcp_cache.feed http.handlers.reverse_proxy"

// logOptions are those of Caddy's log.
func logOptions(log string) string {
	switch log {
	case "":
		return "output stderr\n\t\tlevel WARN\n\t\texclude " + saidOtherwise + "\n\t\tformat console {\n\t\t\ttime_format wall\n\t\t\tlevel_format upper\n\t\t}"
	case "stderr":
		return "output stderr\n\t\tformat json"
	}
	return "output file `" + log + "`\n\t\tformat json"
}

// serveCaddyfile lacks the address of the admin API, the grace period, the
// options of the log, the port, a line that binds a host, and the directive.
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
	%s
}
`
