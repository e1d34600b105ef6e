package caddyfile

import (
	"maps"
	"slices"
	"strings"

	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache"
)

// parser reads one mcp_cache directive into a handler.
type parser struct {
	httpcaddyfile.Helper

	directive caddyparse.Token // the word mcp_cache
	handler   *mcpcache.Handler
	urls      []upstreamURL
	command   []string           // in the place of URLs
	program   caddyparse.Segment // the option stdio, if there is one
	proxy     caddyparse.Segment // the nested reverse_proxy, if there is one
	into      *mcpcache.Server   // of a toolkit, whose block is read; nil for the directive
}

// subdirectives are the options by their names.
var subdirectives = map[string]func(*parser, option) error{
	"kinds":          (*parser).kinds,
	"ttl":            (*parser).ttl,
	"min_ttl":        (*parser).minTTL,
	"max_ttl":        (*parser).maxTTL,
	"stale_if_error": (*parser).staleIfError,
	"gate":           (*parser).gate,
	"scope":          (*parser).scope,
	"partition":      (*parser).partition,
	"harmless":       (*parser).harmless,
	"admit":          (*parser).admit,
	"origins":        (*parser).origins,
	"allow":          (*parser).rule,
	"deny":           (*parser).rule,
	"unlisted":       (*parser).unlisted,
	"page_size":      (*parser).pageSize,
	"secret_file":    (*parser).secretFile,
	"guard":          (*parser).guard,
	"store":          (*parser).store,
	"eras":           (*parser).eras,
	"endpoint":       (*parser).endpoint,
	"host":           (*parser).host,
	"client_name":    (*parser).clientName,
	"refresh":        (*parser).refresh,
	"max_request":    (*parser).maxRequest,
	"max_call":       (*parser).maxCall,
	"max_list":       (*parser).maxList,
	"max_pages":      (*parser).maxPages,
	"memory":         (*parser).memory,
	"precompress":    (*parser).precompress,
	"name":           (*parser).name,
	"name_limit":     (*parser).nameLimit,
	"session_ttl":    (*parser).sessionTTL,
	"max_sessions":   (*parser).maxSessions,
	"door":           (*parser).door,
	"stdio":          (*parser).stdio,
	"reverse_proxy":  (*parser).reverseProxy,
}

func init() { subdirectives["server"] = (*parser).server } // which itself reads options

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
	if len(p.handler.Servers) > 0 {
		return p.checkToolkit(seen)
	}
	for option, otherwise := range ofToolkit {
		if seen[option] {
			return newOption(caddyparse.Segment{p.directive}).Errf("%s is for several servers: without `server` lines %s", option, otherwise)
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
		if err := read(p, newOption(p.NextSegment())); err != nil {
			return nil, err
		}
	}
	return seen, nil
}
