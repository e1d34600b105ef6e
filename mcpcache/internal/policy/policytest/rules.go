// Package policytest has rules for the tests of both ways of a request.
package policytest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Rules hide items from callers. Each applies to everybody, or to requests that have a certain header field.
type Rules struct {
	set    *policy.Set
	fields []string // by rule; "" for one that applies to everybody
}

// Parse reads rules such as "deny X-Guest tools *_drop". A rule has an effect, a header field, a kind and patterns.
// It applies to requests that have the field, which begins with X-. A rule without one applies to everybody. The
// test fails if Parse cannot read a rule. Callers may name items that are not listed, see [Rules.DenyUnlisted].
func Parse(tb testing.TB, lines ...string) *Rules {
	tb.Helper()
	all := new(Rules)
	rules := make([]policy.Rule, 0, len(lines))
	for _, line := range lines {
		words := strings.Fields(line)
		rule := policy.Rule{Everybody: true}
		if words[0] == "deny" {
			rule.Effect = policy.Deny
		}
		words, field := words[1:], ""
		if strings.HasPrefix(words[0], "X-") {
			field, words, rule.Everybody = words[0], words[1:], false
		}
		kind, known := revision.ParseKind(words[0])
		if !known {
			tb.Fatalf("%s: there is no kind %s", line, words[0])
		}
		rule.Kind = kind
		for _, text := range words[1:] {
			pattern, err := policy.ParsePattern(kind, text)
			if err != nil {
				tb.Fatal(err)
			}
			rule.Items = append(rule.Items, pattern)
		}
		rules, all.fields = append(rules, rule), append(all.fields, field)
	}
	all.set = policy.NewSet(rules, true)
	return all
}

// DenyUnlisted has callers name listed items alone, from now on.
func (r *Rules) DenyUnlisted() { r.set = policy.NewSet(r.set.Rules(), false) }

// View returns what the caller of a request may see and call.
func (r *Rules) View(request *http.Request) *policy.View {
	var matched policy.Matched
	for i, field := range r.fields {
		if field != "" && request.Header[field] != nil {
			matched.Add(i)
		}
	}
	return r.set.View(matched)
}

// Widest returns the view of a caller who may see as much as anybody.
func (r *Rules) Widest() *policy.View { return r.set.Most() }
