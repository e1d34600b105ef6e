package ruleset

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Rule is a rule as configured. The rule of the configuration has the same fields, and says what
// they mean.
type Rule struct {
	Effect         string                   `json:"effect"`
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`
	Kind           string                   `json:"kind"`
	Items          []string                 `json:"items"`
}

// Check returns an error that says what is wrong with a rule. It does not look into the matchers.
func (r *Rule) Check() error {
	_, err := r.parse()
	return err
}

// placeholderInItem finds placeholders of Caddy. A Caddyfile makes one of the {path} in a URI
// template: {http.request.uri.path}.
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
		return parsed, fmt.Errorf("kind: %q is not one of %s", r.Kind, strings.Join(revision.ListNames(), ", "))
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
