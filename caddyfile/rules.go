package caddyfile

import (
	"math"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache"
)

// rule reads `allow <kind> <glob|hint:...>...`, or deny.
func (p *parser) rule(o option) error {
	kinds := mcpcache.RuleKinds()
	takes := "one of " + strings.Join(kinds, ", ") + ", and then globs over names, or hints such as hint:read_only"
	for _, word := range o.tokens[1:] {
		// Taken for a glob, a matcher would name nothing, and the rule be about everybody.
		if strings.HasPrefix(word.Text, "@") {
			return o.Errf("%s takes %s; matchers such as %s are not allowed here, as a rule is about all callers, and a name that begins with @ is written \\@...",
				o.name, takes, word.Text)
		}
	}
	args, err := o.arguments(takes, 2, math.MaxInt)
	if err != nil {
		return err
	}
	if !slices.Contains(kinds, args[0]) {
		return o.refuse(takes, args...)
	}
	rule := &mcpcache.Rule{Effect: o.name, Kind: args[0], Items: args[1:]}
	if err := rule.Check(); err != nil {
		return o.Errf("%s: %v", o.name, err)
	}
	p.handler.Rules = append(p.handler.Rules, rule)
	return nil
}
