package mcpcache

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
)

// TestBadRules has rules that are refused: the error says which one, what is wrong
// with it, and what would be right.
func TestBadRules(t *testing.T) {
	const kinds = "tools, prompts, resources, resource_templates"
	rule := func(members string) string {
		return `[{"effect":"allow","kind":"tools","items":["a"]},{` + members + `}]`
	}
	many := "[" + strings.Repeat(`{"effect":"allow","kind":"tools","items":["a"]},`, policy.MaxRules) + `{"effect":"deny","kind":"tools","items":["a"]}]`
	for name, c := range map[string]struct{ rules, want string }{
		"no effect":           {rule(`"kind":"tools","items":["a"]`), `rule 1: effect: "" is not one of allow, deny`},
		"unknown effect":      {rule(`"effect":"Allow","kind":"tools","items":["a"]`), `rule 1: effect: "Allow" is not one of allow, deny`},
		"no kind":             {rule(`"effect":"deny","items":["a"]`), `rule 1: kind: "" is not one of ` + kinds},
		"unknown kind":        {rule(`"effect":"deny","kind":"tool","items":["a"]`), `rule 1: kind: "tool" is not one of ` + kinds},
		"discover":            {rule(`"effect":"deny","kind":"discover","items":["a"]`), `rule 1: kind: "discover" is not one of ` + kinds},
		"no items":            {rule(`"effect":"deny","kind":"tools"`), "rule 1: items: missing"},
		"empty items":         {rule(`"effect":"deny","kind":"tools","items":[]`), "rule 1: items: missing"},
		"an empty item":       {rule(`"effect":"deny","kind":"tools","items":["a",""]`), `rule 1: items: glob ""`},
		"a bad glob":          {rule(`"effect":"deny","kind":"tools","items":["a["]`), `rule 1: items: glob "a["`},
		"a control character": {rule(`"effect":"deny","kind":"tools","items":["a\u0007"]`), `rule 1: items: glob "a\a": it has a control character`},
		"an unknown hint":     {rule(`"effect":"deny","kind":"tools","items":["hint:safe"]`), `rule 1: items: unknown hint "safe"; hints: read_only, destructive, idempotent, open_world`},
		"a hint of a prompt":  {rule(`"effect":"deny","kind":"prompts","items":["hint:read_only"]`), "rule 1: items: hint:read_only: only tools have hints"},
		"a placeholder":       {rule(`"effect":"deny","kind":"tools","items":["{env.TOOLS}"]`), `rule 1: items: "{env.TOOLS}" has the placeholder {env.TOOLS}`},
		"what is hidden":      {rule(`"effect":"allow","kind":"resources","items":["docs://a/../b"]`), `rule 1: items: "docs://a/../b" allows nothing`},
		"another kind":        {rule(`"effect":"deny","kind":"tools","items":["a","prompts"]`), `rule 1: items: "prompts" is a kind`},
		"a bare hint":         {rule(`"effect":"deny","kind":"tools","items":["destructive"]`), `rule 1: items: "destructive" is a hint: write hint:destructive`},
		"an expression":       {rule(`"effect":"deny","kind":"tools","items":["^a"]`), `rule 1: items: glob "^a": it has "^"`},
		"an empty matcher":    {rule(`"effect":"deny","kind":"tools","items":["a"],"match":[{"method":["POST"]},{}]`), "rule 1: match: set 1 of matchers has no condition"},
		"a matcher of null":   {rule(`"effect":"deny","kind":"tools","items":["a"],"match":[null]`), "rule 1: match: set 0 of matchers has no condition"},
		"an unknown matcher":  {rule(`"effect":"deny","kind":"tools","items":["a"],"match":[{"mood":{}}]`), "rule 1: match: "},
		"a bad matcher":       {rule(`"effect":"deny","kind":"tools","items":["a"],"match":[{"expression":"1 +"}]`), "rule 1: match: "},
		"an unknown member":   {rule(`"effect":"deny","kind":"tools","items":["a"],"who":"all"`), `unknown field "who"`},
		"null":                {`[{"effect":"allow","kind":"tools","items":["a"]},null]`, "rule 1: it is null"},
		"too many":            {many, fmt.Sprintf("rules: there are %d, more than %d", policy.MaxRules+1, policy.MaxRules)},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := provision(t, config("bad_rules", "rules", c.rules))
			if err == nil {
				l.cancel()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one that says %q", err, c.want)
			}
		})
	}
}
