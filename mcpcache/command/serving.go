package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/probe"
)

// serving is what serve is asked for.
type serving struct {
	from  string // to listen on
	admin string // address of the admin API
	to    string // URL of the upstream; "" for the demo server, or several
	// servers are those of a toolkit, in order.
	servers []servedAt
	// header is sent with each request to the upstream.
	header http.Header
	// minTTL is the option of that name; "" if it is not given.
	minTTL string
	// log is a file, "stderr", or "".
	log string
}

// servedAt is one of several servers.
type servedAt struct{ name, url string }

// newServing reads the flags. Its error names all that are wrong.
func newServing(ctx context.Context, flags caddycmd.Flags) (*serving, error) {
	s := &serving{minTTL: flags.String("min-ttl"), log: flags.String("log")}
	var mistakes []string
	check := func(flag string, err error) {
		if err != nil {
			mistakes = append(mistakes, "--"+flag+": "+err.Error())
		}
	}
	headers, err := headersOf(flags.FlagSet)
	if err == nil {
		s.header, err = probe.Headers(headers)
	}
	check("header", err)
	check("from", s.listenOn(ctx, flags.String("from"), len(headers) > 0))
	to, err := flags.GetStringArray("to")
	if len(to) == 0 && flags.Changed("to") {
		to = []string{""} // pflag takes one empty text for none
	}
	if err == nil {
		err = s.reach(to)
	}
	check("to", err)
	if len(s.servers) > 0 && len(headers) > 0 {
		check("header", errors.New("not with several servers: each of them would be sent it; write a Caddyfile with a reverse_proxy in the block of the server that it is for"))
	}
	check("min-ttl", checkMinTTL(s.minTTL))
	if len(mistakes) > 0 {
		return nil, errors.New(strings.Join(mistakes, "; "))
	}
	if s.admin, err = adminAddress(ctx, caddy.DefaultAdminListen); err != nil {
		return nil, fmt.Errorf("choosing an address for the admin API: %w", err)
	}
	return s, nil
}

// listenOn takes the address to listen on. If it has to be local, no other
// machine must reach it.
func (s *serving) listenOn(ctx context.Context, from string, local bool) (err error) {
	if s.from, err = freeAddress(ctx, from); err != nil {
		return err
	}
	if local && !probe.OnLoopback("http://"+s.from) {
		return fmt.Errorf("with --header, whoever reaches the cache acts with these headers, so it has to listen on a loopback address, such as %s", defaultFrom)
	}
	return nil
}

// named matches NAME=URL.
var named = regexp.MustCompile(`^([A-Za-z0-9_-]+)=(.*)$`)

// reach takes what to serve: one URL, several as NAME=URL, or nothing.
func (s *serving) reach(to []string) (err error) {
	for _, value := range to {
		match := named.FindStringSubmatch(value)
		switch {
		case match == nil && len(to) > 1:
			return fmt.Errorf("%q has no name: give each of several servers one, such as --to docs=%s", value, value)
		case match == nil:
			s.to, err = upstreamAt(value)
			return err
		}
		u, err := upstreamAt(match[2])
		if err != nil {
			return fmt.Errorf("%s: %w", match[1], err)
		}
		s.servers = append(s.servers, servedAt{match[1], u})
	}
	if len(s.servers) == 0 {
		return nil
	}
	// The directive knows what else the names have to be.
	_, err = serveConfig(serving{from: defaultFrom, admin: caddy.DefaultAdminListen, servers: s.servers})
	return err
}

// upstreamAt returns the URL that an operator means.
func upstreamAt(to string) (string, error) {
	u, err := probe.ParseURL(to)
	if err != nil {
		return "", err
	}
	// The directive knows what else it has to be.
	_, err = serveConfig(serving{from: defaultFrom, admin: caddy.DefaultAdminListen, to: u.String()})
	return u.String(), err
}

func checkMinTTL(text string) error {
	if text == "" {
		return nil
	}
	d, err := caddy.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no duration such as 1m", text)
	case d < 0 || d > feed.DefaultMaxTTL:
		return fmt.Errorf("%q is not from 0 to %s", text, feed.DefaultMaxTTL)
	}
	return nil
}

// remarks says what else people should know of the addresses and headers.
func (s *serving) remarks() string {
	text := ""
	if host, _, err := net.SplitHostPort(s.from); err == nil && isEverywhere(host) {
		text = "It listens on all addresses of this machine: whoever reaches one of them can use the server.\n"
	}
	if len(s.header) > 0 {
		text += "Each request to the server carries the " + strings.Join(s.headerNames(), ", ") + " of --header: whoever reaches the cache acts with that.\n"
	}
	text += "Caddy's admin API is at " + s.admin + "."
	if s.admin != caddy.DefaultAdminListen {
		text += " See how the cache is: caddy mcp-cache status --address " + s.admin
	}
	return text + "\n"
}

// behind says in front of what the cache is.
func (s *serving) behind() string {
	if len(s.servers) == 0 {
		return "the MCP server at " + s.to
	}
	texts := make([]string, len(s.servers))
	for i, server := range s.servers {
		texts[i] = server.name + " at " + server.url
	}
	return strings.Join(texts, ", ")
}

// whyNot says in a line for each server what is wrong with it; "" if nothing is.
func (s *serving) whyNot(ctx context.Context) string {
	if len(s.servers) == 0 {
		return whyNot(ctx, s.to, s.header)
	}
	var lines []string
	for _, server := range s.servers {
		if why := whyNot(ctx, server.url, nil); why != "" {
			lines = append(lines, why)
		}
	}
	return strings.Join(lines, "\n")
}

// headerNames returns the names of the headers, sorted.
func (s *serving) headerNames() []string { return slices.Sorted(maps.Keys(s.header)) }
