package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
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
	to    string // URL of the upstream; "" for the demo server
	// header is sent with each request to the upstream.
	header http.Header
	// minTTL is the option of that name; "" if it is not given.
	minTTL string
	// log is a file, "stderr", or "".
	log string
}

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
	if to := flags.String("to"); to != "" || flags.Changed("to") {
		s.to, err = upstreamAt(to)
		check("to", err)
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

// headerNames returns the names of the headers, sorted.
func (s *serving) headerNames() []string { return slices.Sorted(maps.Keys(s.header)) }
