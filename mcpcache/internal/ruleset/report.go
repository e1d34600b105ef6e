package ruleset

import (
	"context"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/placeholder"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

// Policy returns the rules as operators see them, or nil if there are none.
func (s *Rules) Policy() report.Policy {
	if s == nil {
		return nil
	}
	return s
}

// Rules implements [report.Policy].
func (s *Rules) Rules() []report.Rule {
	rules, unused := make([]report.Rule, len(s.configured)), s.use.findUnused()
	for i, r := range s.configured {
		rules[i] = report.Rule{Number: i, Effect: r.Effect, Kind: r.Kind, Items: r.Items}
		for _, n := range unused[i] {
			rules[i].Unused = append(rules[i].Unused, r.Items[n])
		}
	}
	for _, m := range s.matchers {
		for _, i := range m.rules() {
			rules[i].Match, rules[i].Failures, rules[i].Failing = m.text, m.failures.Load(), m.failing.Load()
		}
	}
	return rules
}

// Set implements [report.Policy].
func (s *Rules) Set() *policy.Set { return s.set }

// ViewAs implements [report.Policy].
func (s *Rules) ViewAs(ctx context.Context, as []string) (*policy.View, map[int]error, error) {
	r, asked, err := requestAs(ctx, s.path, as)
	if err != nil {
		return nil, nil, err
	}
	view, failed := s.viewOf(r)
	// A condition that decides keeps those behind it from asking.
	for _, m := range s.matchers {
		asked.add(slices.DeleteFunc(placeholder.Names(m.text), isRepetition)...)
	}
	if unasked, others := asked.unasked(); unasked != nil {
		return view, failed, &report.UnaskedError{Names: unasked, Asked: others}
	}
	return view, failed, nil
}

// isRepetition reports whether a text is a number of repetitions, such as 2,3. Regular
// expressions have it in braces.
func isRepetition(text string) bool { return strings.Trim(text, "0123456789,") == "" }

// Interface guards
var _ report.Policy = (*Rules)(nil)
