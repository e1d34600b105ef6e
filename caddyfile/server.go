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

// readServer reads `server <name> [<url...>] { ... }`.
func (p *parser) readServer(o option) error {
	const takes = "a name of a-z, 0-9 and -, and then the URLs of one server, stdio and a command, or a block that says how to reach it"
	if !o.NextArg() {
		return o.refuse(takes)
	}
	s := new(mcpcache.Server)
	s.Name = o.Val()
	if err := mcpcache.CheckServerName(s.Name); err != nil {
		return o.Errf("server: %v", err)
	}
	if slices.ContainsFunc(p.handler.Servers, func(other *mcpcache.Server) bool { return other.Name == s.Name }) {
		return o.Errf("two servers are called %s", s.Name)
	}
	p.handler.Servers = append(p.handler.Servers, s)
	inner := p.newServerParser(o, s)
	inner.Next()    // server
	inner.NextArg() // its name
	return inner.parse()
}

// readPrefix reads `prefix <text>|off`.
func readPrefix(to *mcpcache.Server, o option) error {
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
	to.Prefix = &text
	return nil
}

// readSessionLost reads `session_lost reopen|end`.
func readSessionLost(to *mcpcache.Server, o option) error {
	return o.checked(&to.SessionLost, "one of "+mcpcache.Reopen+", "+mcpcache.End, mcpcache.CheckSessionLost)
}

// readAuthorization reads `authorization off|forward|guard|from <header>`.
func readAuthorization(to *mcpcache.Server, o option) error {
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
	to.Authorization = a
	return nil
}

// readHeaders reads `headers <header...>`.
func readHeaders(to *mcpcache.Server, o option) error {
	names, err := o.arguments("one or more names of request headers, such as X-Tenant", 1, math.MaxInt)
	if err != nil {
		return err
	}
	if err := mcpcache.CheckHeaders(names); err != nil {
		return o.Errf("%v", err)
	}
	to.Headers = names
	return nil
}

// readDoor reads `door <server>`.
func readDoor(to *mcpcache.ToolkitOptions, o option) error {
	const takes = "the name of one of the servers"
	name, err := o.argument(takes)
	if err == nil && name == "" {
		err = o.refuse(takes, name)
	}
	to.Door = name
	return err
}

// misplaced returns an error for an option that is none of the block's, but means
// something elsewhere, or nil.
func (p *parser) misplaced(name string) error {
	switch {
	case slices.Contains(planned, name), p.into != nil && ofOneServer[name] != nil:
		return p.Errf("%s: not yet in a toolkit, that is with several servers", name)
	case p.into != nil && (ofEndpoint[name] != nil || ofDirective[name] != nil || ofToolkit[name].read != nil):
		return p.Errf("%s is an option of the toolkit, not of one of its servers: put it beside them", name)
	case p.command != nil && slices.Contains(stdio.OptionNames(), name):
		return p.Errf("%s is an option of the program: put it into the block stdio", name)
	case p.into == nil && ofOneOfSeveral[name] != nil:
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
		case ofOneServer[name] != nil:
			return at.Errf("%s: not yet in a toolkit, that is with several servers", name)
		case ofServer[name] != nil, ofUpstream[name] != nil:
			return at.Errf("%s is an option of a server: put it into the blocks of the servers that it is for", name)
		}
	}
	if err := mcpcache.CheckServers(p.handler.Servers); err != nil {
		return at.Errf("servers: %v", err)
	}
	if err := mcpcache.CheckNameLimit(p.handler.NameLimit, p.handler.Servers); err != nil {
		return at.Errf("%v", err)
	}
	if _, err := p.handler.CheckDoor(&p.handler.EndpointOptions); err != nil {
		return at.Errf("%v", err)
	}
	return nil
}
