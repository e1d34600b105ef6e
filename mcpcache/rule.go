package mcpcache

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Rule allows or denies items of one kind. It is about all callers.
type Rule struct {
	// `allow` or `deny`. Of a kind that any rule allows something of, callers see
	// and call nothing else than what rules allow. What a rule denies they do not
	// see, whatever else is allowed.
	Effect string `json:"effect"`

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

// Check returns an error that says what is wrong with a rule.
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

// loadRules returns what rules let callers see and call, nil if there are none.
func loadRules(all []*Rule, logger *zap.Logger) (*policy.View, error) {
	if len(all) > policy.MaxRules {
		return nil, fmt.Errorf("rules: there are %d, more than %d", len(all), policy.MaxRules)
	}
	parsed := make([]policy.Rule, len(all))
	for i, rule := range all {
		var err error
		if parsed[i], err = rule.parse(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
	}
	if open := policy.Open(parsed); open != nil {
		logger.Warn("tools are restricted, and no rule is about other kinds: they are open to everybody", zap.Stringers("open", open))
	}
	return policy.New(parsed), nil
}
