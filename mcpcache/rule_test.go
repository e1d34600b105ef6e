package mcpcache

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
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
		// What rules do not have is not ignored: a rule about some would be about everybody.
		"a matcher": {rule(`"effect":"allow","kind":"tools","items":["a"],"match":[{"method":["POST"]}]`), `unknown field "match"`},
		"null":      {`[{"effect":"allow","kind":"tools","items":["a"]},null]`, "rule 1: it is null"},
		"too many":  {many, fmt.Sprintf("rules: there are %d, more than %d", policy.MaxRules+1, policy.MaxRules)},
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

// TestLoadRules has as many rules as there may be, and none.
func TestLoadRules(t *testing.T) {
	rules := make([]*Rule, policy.MaxRules)
	for i := range rules {
		rules[i] = &Rule{Effect: "allow", Kind: "tools", Items: []string{fmt.Sprint("t", i)}}
	}
	rules[0] = &Rule{Effect: "deny", Kind: "resources", Items: []string{"docs://a/*", "docs://b"}}
	v, err := loadRules(rules, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	for kind, items := range map[revision.Kind]map[string]bool{
		revision.Tools:     {"t0": false, "t1": true, "t255": true, "t256": false},
		revision.Prompts:   {"a": true},
		revision.Resources: {"docs://a/x": false, "docs://b": false, "docs://c": true},
	} {
		for name, want := range items {
			if got := v.Decide(kind, policy.Item{Name: name}); got != want {
				t.Errorf("%s %s is allowed: %v", kind, name, got)
			}
		}
	}
	for _, none := range [][]*Rule{nil, {}} {
		if v, err := loadRules(none, zap.NewNop()); v != nil || err != nil {
			t.Errorf("%v gave %v, %v", none, v, err)
		}
	}
}

// TestWarningOfOpenKinds restricts tools, and perhaps others: one warning names the
// kinds that may have been forgotten.
func TestWarningOfOpenKinds(t *testing.T) {
	for kinds, want := range map[string]string{
		"tools":                   "[prompts resources resource_templates]",
		"tools prompts":           "[resources resource_templates]",
		"tools resources":         "[prompts resource_templates]",
		"tools prompts resources": "",
		"prompts":                 "",
	} {
		var rules []*Rule
		for kind := range strings.FieldsSeq(kinds) {
			rules = append(rules, &Rule{Effect: "deny", Kind: kind, Items: []string{"a"}})
		}
		core, logs := observer.New(zap.WarnLevel)
		if _, err := loadRules(rules, zap.New(core)); err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, entry := range logs.All() {
			said = append(said, fmt.Sprint(entry.ContextMap()["open"]))
		}
		if got := strings.Join(said, " "); got != want {
			t.Errorf("with rules about %s the log names %q, want %q", kinds, got, want)
		}
	}
}
