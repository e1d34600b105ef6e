package caddyfile

import (
	"maps"
	"slices"
	"strings"

	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache"
)

// parser reads the block of an mcp_cache directive, or of one of its servers.
type parser struct {
	httpcaddyfile.Helper

	directive caddyparse.Token  // the word mcp_cache, or server
	handler   *mcpcache.Handler // of the directive; nil in the block of a server
	into      *mcpcache.Server  // whose block is read; nil for the directive

	server *mcpcache.ServerOptions // of handler, or of into
	shared *mcpcache.SharedOptions

	urls    []upstreamURL
	command []string           // in the place of URLs
	program caddyparse.Segment // the option stdio, if there is one
	proxy   caddyparse.Segment // the nested reverse_proxy, if there is one
}

// newParser returns the parser of a directive, which fills in handler.
func newParser(h httpcaddyfile.Helper, handler *mcpcache.Handler) *parser {
	return &parser{Helper: h, directive: h.Token(), handler: handler, server: &handler.ServerOptions, shared: &handler.SharedOptions}
}

// newServerParser returns the parser of a server in that block, which fills in s.
func (p *parser) newServerParser(o option, s *mcpcache.Server) *parser {
	return &parser{
		Helper: p.WithDispenser(caddyparse.NewDispenser(o.tokens)), directive: o.tokens[0],
		into: s, server: &s.ServerOptions, shared: &s.SharedOptions,
	}
}

// repeatable are the options that may be given several times: rules as often as wanted,
// servers once for each name, and the others once for each kind, for which they look
// themselves.
var repeatable = map[string]bool{"ttl": true, "min_ttl": true, "max_ttl": true, "allow": true, "deny": true, "server": true}

// parse reads the URLs or the command, and the block, and makes the upstream of them.
func (p *parser) parse() error {
	if err := p.parseURLs(); err != nil {
		return err
	}
	seen, err := p.parseOptions()
	if err != nil {
		return err
	}
	if p.handler != nil && len(p.handler.Servers) > 0 {
		return p.checkToolkit(seen)
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if option, ok := ofToolkit[name]; ok {
			return newOption(caddyparse.Segment{p.directive}).Errf("%s is for several servers: without `server` lines %s", name, option.alone)
		}
	}
	if err := p.checkProgram(seen); err != nil {
		return err
	}
	return p.buildUpstream()
}

// parseOptions reads the block, and returns the names of the options in it. Each option
// is cut out first, so that none can read beyond its own end.
func (p *parser) parseOptions() (seen map[string]bool, err error) {
	seen = make(map[string]bool)
	options := p.options()
	for p.NextBlock(0) {
		name := p.Val()
		read, known := options[name]
		if !known {
			if err := p.misplaced(name); err != nil {
				return nil, err
			}
			names := slices.Sorted(maps.Keys(options))
			return nil, p.Errf("unrecognized subdirective %q of %s%s; its options are %s", name, p.directive.Text,
				mcpcache.DidYouMean(name, names), strings.Join(names, ", "))
		}
		if seen[name] && !repeatable[name] {
			return nil, p.Errf("%s already specified", name)
		}
		seen[name] = true
		if err := read(newOption(p.NextSegment())); err != nil {
			return nil, err
		}
	}
	return seen, nil
}
