package caddyfile

import (
	"maps"
	"slices"

	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache"
)

// ofServer are the options of a server of a toolkit, besides prefix and session_lost.
var ofServer = []string{
	"kinds", "ttl", "min_ttl", "max_ttl", "stale_if_error", "scope", "eras", "endpoint", "host", "refresh",
	"max_list", "max_pages", "reverse_proxy",
}

// ofBoth are the options that a toolkit has, too, for itself or for all of its servers.
var ofBoth = []string{"endpoint", "max_list"}

// ofToolkit are the options that only a toolkit has, and how it is without one.
var ofToolkit = map[string]string{
	"name_limit":   "no name is changed",
	"session_ttl":  "sessions are the server's",
	"max_sessions": "sessions are the server's",
}

// later are the options that are planned for toolkits, and that nothing goes by yet.
var later = []string{
	"authorization", "headers", "uris", "timeout", "door", "instructions",
	"guard", "allow", "deny", "page_size", "admit", "partition", "harmless",
}

// server reads `server <name> [<url...>] { ... }`.
func (p *parser) server(o option) error {
	const takes = "a name of a-z, 0-9 and -, and then the URLs of one server, or a block that says how to reach it"
	if !o.NextArg() {
		return o.refuse(takes)
	}
	s := &mcpcache.Server{}
	s.Name = o.Val()
	if err := mcpcache.CheckServerName(s.Name); err != nil {
		return o.Errf("server: %v", err)
	}
	if slices.ContainsFunc(p.handler.Servers, func(other *mcpcache.Server) bool { return other.Name == s.Name }) {
		return o.Errf("two servers are called %s", s.Name)
	}
	p.handler.Servers = append(p.handler.Servers, s)
	inner := &parser{
		Helper: p.WithDispenser(caddyparse.NewDispenser(o.tokens)), directive: o.tokens[0], handler: &s.Handler, into: s,
	}
	inner.Next()    // server
	inner.NextArg() // its name
	return inner.parse()
}

// prefix reads `prefix <text>|off`.
func (p *parser) prefix(o option) error {
	const takes = "one text of up to 32 of A-Z, a-z, 0-9, _, ., / and -, or off"
	text, err := o.argument(takes)
	switch {
	case err != nil:
		return err
	case text == "off":
		text = ""
	case text == "" || mcpcache.CheckPrefix(text) != nil:
		return o.refuse(takes, text)
	}
	p.into.Prefix = &text
	return nil
}

// sessionLost reads `session_lost reopen|end`.
func (p *parser) sessionLost(o option) error {
	const takes = "one of " + mcpcache.Reopen + ", " + mcpcache.End
	what, err := o.argument(takes)
	if err != nil {
		return err
	}
	if what == "" || mcpcache.CheckSessionLost(what) != nil {
		return o.refuse(takes, what)
	}
	p.into.SessionLost = what
	return nil
}

// options returns those that the block may have.
func (p *parser) options() map[string]func(*parser, option) error {
	if p.into == nil {
		return subdirectives
	}
	options := map[string]func(*parser, option) error{"prefix": (*parser).prefix, "session_lost": (*parser).sessionLost}
	for _, name := range ofServer {
		options[name] = subdirectives[name]
	}
	return options
}

// misplaced returns an error for an option that is none of the block's, but means
// something elsewhere, or nil.
func (p *parser) misplaced(name string) error {
	_, known := subdirectives[name]
	switch {
	case slices.Contains(later, name) && (p.into != nil || !known):
		return p.Errf("%s: not yet in a toolkit, that is with several servers", name)
	case p.into != nil && known:
		return p.Errf("%s is an option of the toolkit, not of one of its servers: put it beside them", name)
	case p.into == nil && (name == "prefix" || name == "session_lost"):
		return p.Errf("%s is an option of a server: put it into the block of that server", name)
	}
	return nil
}

// checkToolkit returns an error if the directive has what only one server can have.
func (p *parser) checkToolkit(seen map[string]bool) error {
	at := newOption(caddyparse.Segment{p.directive})
	if len(p.urls) > 0 || p.proxy != nil {
		return at.Errf("mcp_cache has both servers and an upstream of its own; give that one a name, too: server <name> <url...>")
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		switch {
		case slices.Contains(later, name):
			return at.Errf("%s: not yet in a toolkit, that is with several servers", name)
		case slices.Contains(ofServer, name) && !slices.Contains(ofBoth, name):
			return at.Errf("%s is an option of a server: put it into the blocks of the servers that it is for", name)
		}
	}
	if err := mcpcache.CheckServers(p.handler.Servers); err != nil {
		return at.Errf("servers: %v", err)
	}
	if err := mcpcache.CheckNameLimit(p.handler.NameLimit, p.handler.Servers); err != nil {
		return at.Errf("%v", err)
	}
	return nil
}
