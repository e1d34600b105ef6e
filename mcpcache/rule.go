package mcpcache

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
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

// Check returns an error that says what is wrong with a rule but for what is in its
// matchers.
func (r *Rule) Check() error {
	_, err := r.parse()
	return err
}

// placeholderInItem finds what somebody wants to have replaced, such as the {path} of
// a URI template, which a Caddyfile takes for {http.request.uri.path}.
var placeholderInItem = regexp.MustCompile(`\{(http|env|system|time|file)\.[^{}]*\}`)

func (r *Rule) parse() (parsed policy.Rule, err error) {
	if r == nil {
		return parsed, errors.New("it is null")
	}
	parsed.Everybody = len(r.MatcherSetsRaw) == 0
	for i, set := range r.MatcherSetsRaw {
		if len(set) == 0 {
			return parsed, fmt.Errorf("match: set %d of matchers has no condition, and would match everybody: give it one, or leave it out if everybody is meant", i)
		}
	}
	switch r.Effect {
	case "allow":
	case "deny":
		parsed.Effect = policy.Deny
	default:
		return parsed, fmt.Errorf("effect: %q is not one of allow, deny", r.Effect)
	}
	kind, ok := revision.ParseKind(r.Kind)
	if !ok || kind.ItemsKey() == "" {
		return parsed, fmt.Errorf("kind: %q is not one of %s", r.Kind, strings.Join(RuleKinds(), ", "))
	}
	parsed.Kind = kind
	if len(r.Items) == 0 {
		return parsed, fmt.Errorf("items: missing; they are globs over the names of %s", r.Kind)
	}
	for _, text := range r.Items {
		if placeholder := placeholderInItem.FindString(text); placeholder != "" {
			return parsed, fmt.Errorf("items: %q has the placeholder %s, and rules replace none; * is any text", text, placeholder)
		}
		p, err := policy.ParsePattern(kind, text)
		if err != nil {
			return parsed, fmt.Errorf("items: %w", err)
		}
		if parsed.Effect == policy.Allow && kind != revision.Tools && !p.IsGlob() && !policy.Certain(kind, text) {
			return parsed, fmt.Errorf("items: %q allows nothing: servers may take that URI for another, so it is hidden where there are rules", text)
		}
		parsed.Items = append(parsed.Items, p)
	}
	return parsed, nil
}
