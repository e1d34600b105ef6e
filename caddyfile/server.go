package caddyfile

import (
	"maps"
	"math"
	"slices"
	"strings"

	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/transports/stdio"
)

// ofServer are the options of a server of a toolkit that other handlers have, too.
var ofServer = []string{
	"kinds", "ttl", "min_ttl", "max_ttl", "stale_if_error", "scope", "eras", "endpoint", "host", "client_name", "refresh",
	"max_list", "max_pages", "stdio", "reverse_proxy", "guard", "allow", "deny",
}

// onlyOfServer are those that only such a server has.
var onlyOfServer = map[string]func(*parser, option) error{
	"prefix": (*parser).prefix, "session_lost": (*parser).sessionLost,
	"authorization": (*parser).authorization, "headers": (*parser).headers,
}

// ofBoth are the options that a toolkit has, too, for itself or for all of its servers.
var ofBoth = []string{"endpoint", "max_list", "allow", "deny"}

// ofToolkit are the options that only a toolkit has, and how it is without one.
var ofToolkit = map[string]string{
	"name_limit":   "no name is changed",
	"session_ttl":  "sessions are the server's",
	"max_sessions": "sessions are the server's",
	"door":         "the server lets callers in itself",
}

// later are the options that are planned for toolkits, and that nothing goes by yet.
var later = []string{
	"uris", "timeout", "instructions", "page_size", "partition", "harmless",
}

// server reads `server <name> [<url...>] { ... }`.
func (p *parser) server(o option) error {
	const takes = "a name of a-z, 0-9 and -, and then the URLs of one server, stdio and a command, or a block that says how to reach it"
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
	return o.checked(&p.into.SessionLost, "one of "+mcpcache.Reopen+", "+mcpcache.End, mcpcache.CheckSessionLost)
}

// authorization reads `authorization off|forward|guard|from <header>`.
func (p *parser) authorization(o option) error {
	var takes = "one of " + strings.Join(mcpcache.Modes, ", ") + "; after from, the name of a header such as X-GitHub-Auth"
	args, err := o.arguments(takes, 1, 2)
	if err != nil {
		return err
	}
	a := &mcpcache.Authorization{Mode: args[0]}
	if (len(args) == 2) != (a.Mode == mcpcache.From) || !slices.Contains(mcpcache.Modes, a.Mode) {
		return o.refuse(takes, args...)
	}
	if len(args) == 2 {
		a.Header = args[1]
	}
	if err := mcpcache.CheckAuthorization(*a); err != nil {
		return o.Errf("%v", err)
	}
	p.into.Authorization = a
	return nil
}

// headers reads `headers <header...>`.
func (p *parser) headers(o option) error {
	names, err := o.arguments("one or more names of request headers, such as X-Tenant", 1, math.MaxInt)
	if err != nil {
		return err
	}
	if err := mcpcache.CheckHeaders(names); err != nil {
		return o.Errf("%v", err)
	}
	p.into.Headers = names
	return nil
}

// door reads `door <server>`.
func (p *parser) door(o option) error {
	const takes = "the name of one of the servers"
	name, err := o.argument(takes)
	if err == nil && name == "" {
		err = o.refuse(takes, name)
	}
	p.handler.Door = name
	return err
}

// options returns those that the block may have.
func (p *parser) options() map[string]func(*parser, option) error {
	if p.into == nil {
		return subdirectives
	}
	options := maps.Clone(onlyOfServer)
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
	case p.command != nil && slices.Contains(stdio.OptionNames(), name):
		return p.Errf("%s is an option of the program: put it into the block stdio", name)
	case p.into == nil && onlyOfServer[name] != nil:
		return p.Errf("%s is an option of a server: put it into the block of that server", name)
	}
	return nil
}

// checkToolkit returns an error if the directive has what only one server can have.
func (p *parser) checkToolkit(seen map[string]bool) error {
	at := newOption(caddyparse.Segment{p.directive})
	if len(p.urls) > 0 || p.command != nil || p.proxy != nil {
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
	if _, err := p.handler.CheckDoor(); err != nil {
		return at.Errf("%v", err)
	}
	return nil
}
