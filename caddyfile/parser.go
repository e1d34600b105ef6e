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
	proxy     caddyparse.Segment // the nested reverse_proxy, if there is one
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
	"page_size":      (*parser).pageSize,
	"secret_file":    (*parser).secretFile,
	"guard":          (*parser).guard,
	"store":          (*parser).store,
	"eras":           (*parser).eras,
	"endpoint":       (*parser).endpoint,
	"host":           (*parser).host,
	"refresh":        (*parser).refresh,
	"max_request":    (*parser).maxRequest,
	"max_call":       (*parser).maxCall,
	"max_list":       (*parser).maxList,
	"max_pages":      (*parser).maxPages,
	"memory":         (*parser).memory,
	"precompress":    (*parser).precompress,
	"name":           (*parser).name,
	"reverse_proxy":  (*parser).reverseProxy,
}

// repeatable are the options that may be given several times: rules as often as wanted,
// and the others once for each kind, for which they look themselves.
var repeatable = map[string]bool{"ttl": true, "min_ttl": true, "max_ttl": true, "allow": true, "deny": true}

// parseOptions reads the directive's block. Each option is cut out first, so
// that none can read beyond its own end.
func (p *parser) parseOptions() error {
	seen := make(map[string]bool)
	for p.NextBlock(0) {
		name := p.Val()
		read, known := subdirectives[name]
		if !known {
			names := slices.Sorted(maps.Keys(subdirectives))
			return p.Errf("unrecognized subdirective %q of mcp_cache%s; its options are %s", name,
				mcpcache.DidYouMean(name, names), strings.Join(names, ", "))
		}
		if seen[name] && !repeatable[name] {
			return p.Errf("%s already specified", name)
		}
		seen[name] = true
		if err := read(p, newOption(p.NextSegment())); err != nil {
			return err
		}
	}
	return nil
}
