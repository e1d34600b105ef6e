package caddyfile

import (
	"math"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache"
)

// rule reads `allow [<matcher>] <kind> <glob|hint:...>...`, or deny.
func (p *parser) rule(o option) error {
	kinds := mcpcache.RuleKinds()
	takes := "optionally a matcher, then one of " + strings.Join(kinds, ", ") + ", and then globs over names, or hints such as hint:read_only"
	rule := &mcpcache.Rule{Effect: o.name}
	if len(o.tokens) > 1 && isMatcher(o.tokens[1].Text) {
		set, ok, err := p.WithDispenser(o.Dispenser).MatcherToken()
		if err != nil {
			return o.Errf("%s: %v; matchers are defined in the site block that mcp_cache is in", o.name, err)
		}
		if ok && set != nil {
			rule.MatcherSetsRaw = caddyhttp.RawMatcherSets{set}
		}
	}
	args, err := o.arguments(takes, 2, math.MaxInt)
	if err != nil {
		return err
	}
	if !slices.Contains(kinds, args[0]) {
		return o.refuseName(takes, args[0], kinds, args...)
	}
	// Taken for globs, these would say something else than what is meant.
	for _, item := range args[1:] {
		if strings.HasPrefix(item, "@") {
			return o.Errf("%s: the matcher %s stands before the kind", o.name, item)
		}
	}
	rule.Kind, rule.Items = args[0], args[1:]
	if err := rule.Check(); err != nil {
		return o.Errf("%s: %v", o.name, err)
	}
	p.shared.Rules = append(p.shared.Rules, rule)
	return nil
}
