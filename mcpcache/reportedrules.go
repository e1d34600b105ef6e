package mcpcache

import (
	"context"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/placeholder"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

// reportedRules is what operators see of the rules of a handler that has some.
type reportedRules struct{ h *Handler }

// Rules implements [report.Policy].
func (p reportedRules) Rules() []report.Rule {
	rules, unused := make([]report.Rule, len(p.h.Rules)), p.h.rules.use.look()
	for i, r := range p.h.Rules {
		rules[i] = report.Rule{Number: i, Effect: r.Effect, Kind: r.Kind, Items: r.Items}
		for _, n := range unused[i] {
			rules[i].Unused = append(rules[i].Unused, r.Items[n])
		}
	}
	for _, m := range p.h.rules.matchers {
		for _, i := range m.rules() {
			rules[i].Match, rules[i].Failures, rules[i].Failing = m.text, m.failures.Load(), m.failing.Load()
		}
	}
	return rules
}

// Set implements [report.Policy].
func (p reportedRules) Set() *policy.Set { return p.h.rules.set }

// ViewAs implements [report.Policy].
func (p reportedRules) ViewAs(ctx context.Context, as []string) (*policy.View, map[int]error, error) {
	r, asked, err := requestAs(ctx, p.h.rules.path, as)
	if err != nil {
		return nil, nil, err
	}
	view, failed := p.h.rules.viewOf(r)
	// A condition that decides keeps those behind it from asking.
	for _, m := range p.h.rules.matchers {
		asked.add(slices.DeleteFunc(placeholder.Names(m.text), isRepetition)...)
	}
	if unasked, others := asked.unasked(); unasked != nil {
		return view, failed, &report.UnaskedError{Names: unasked, Asked: others}
	}
	return view, failed, nil
}

// isRepetition reports whether a text is what regular expressions have in braces to say
// how often, such as 2,3.
func isRepetition(text string) bool { return strings.Trim(text, "0123456789,") == "" }

// Interface guards
var _ report.Policy = reportedRules{}
