package mcpcache

import (
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/ruleset"
)

// Rule allows or denies items of one kind to everybody, or to the callers that a
// matcher matches.
type Rule struct {
	// `allow` or `deny`. Of a kind that any rule allows something of, callers see
	// and call nothing else than what the rules that match them allow. What a rule
	// that matches them denies they do not see, whatever else is allowed.
	Effect string `json:"effect"`

	// Who: any of these sets of matchers. If one fails, an `allow` does not match and
	// a `deny` does. An empty set is refused. Default: everybody
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// `tools`, `prompts`, `resources` (by URI; also what is read and subscribed to)
	// or `resource_templates` (also their completion).
	Kind string `json:"kind"`

	// What: globs over names, URIs or URI templates, in which `*` is any text, `?`
	// any character and `[a-z]` one of those, or, for tools, `hint:read_only`,
	// `hint:destructive`, `hint:idempotent`, `hint:open_world`: what a tool says of
	// itself in its annotations, with the defaults of the specification. Placeholders
	// are not replaced, and refused, as is what looks like a regular expression, a
	// list, another kind or a mistyped hint.
	Items []string `json:"items"`
}

// RuleKinds returns the names of the kinds that rules can be about.
func RuleKinds() []string { return revision.ListNames() }

// Check returns an error that says what is wrong with a rule. It does not look into the matchers.
func (r *Rule) Check() error { return (*ruleset.Rule)(r).Check() }

// configured returns rules in the form in which [ruleset.Load] takes them.
func configured(rules []*Rule) []*ruleset.Rule {
	all := make([]*ruleset.Rule, len(rules))
	for i, r := range rules {
		all[i] = (*ruleset.Rule)(r)
	}
	return all
}
