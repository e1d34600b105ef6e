package report

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Why is what decides whether a caller is shown an item.
type Why struct {
	Allowed bool `json:"allowed"`
	// Server is that of a toolkit whose rules decide; left out if they are not of one.
	Server string `json:"server,omitempty"`
	// Rule is the one that decides, if one does.
	Rule *Rule `json:"rule,omitempty"`
	// Reason says what decides without a rule, and what is wrong with one.
	Reason string `json:"reason,omitempty"`
}

// ItemsAs is [Items] as a caller is shown them for whom placeholders and headers have
// those values, each written KEY=VALUE. With why, it returns those that are hidden
// too, and what decides about each.
func ItemsAs(ctx context.Context, s Source, k revision.Kind, like string, as []string, why bool) ([]Item, error) {
	items, err := Items(s, k, like)
	if err != nil {
		return nil, err
	}
	if t := s.Toolkit(); t != nil {
		return joinedItemsAs(ctx, s, t, k, like, as, why)
	}
	decide := func(Item) *Why { return &Why{Allowed: true, Reason: "there are no rules"} }
	if p := s.Policy(); p != nil {
		view, failed, err := p.ViewAs(ctx, as)
		if err != nil {
			return nil, trouble(Invalid, "as: %v", err)
		}
		c := caller{p.Set(), view, p.Rules(), failed}
		decide = func(i Item) *Why { return c.why(k, policy.Item{Name: i.Name}, i.Raw) }
	}
	for i := range items {
		items[i].why = decide(items[i])
	}
	if why {
		return items, nil
	}
	items = slices.DeleteFunc(items, func(i Item) bool { return !i.why.Allowed })
	for i := range items {
		items[i].why = nil
	}
	return items, nil
}

// caller is one as the rules of a handler see it.
type caller struct {
	set    *policy.Set
	view   *policy.View
	rules  []Rule
	failed map[int]error // by the numbers of the rules
}

// why says what decides about an item of those names.
func (c *caller) why(k revision.Kind, item policy.Item, raw []byte) *Why {
	item.Hints = c.view.ItemOf(k, raw).Hints
	d := c.view.Decide(k, item)
	w := &Why{Allowed: d.Allowed}
	if d.Rule < 0 {
		w.Reason = c.undecided(k, item, d.Allowed)
		return w
	}
	r := c.rules[d.Rule]
	w.Rule = &Rule{Number: r.Number, Effect: r.Effect, Kind: r.Kind, Items: r.Items, Match: r.Match}
	if err := c.failed[d.Rule]; err != nil {
		w.Reason = fmt.Sprintf("its matcher fails for this caller: %v", err)
	}
	return w
}

// undecided says what decides about an item where no rule does.
func (c *caller) undecided(k revision.Kind, item policy.Item, allowed bool) string {
	switch {
	case !c.view.Restricts(k):
		return "no rule that is about this caller restricts " + k.String()
	case allowed:
		return "no rule denies it, and " + k.String() + " are open"
	case item.Name == "" || !policy.Certain(k, item.Name):
		return "nothing certain can be said of its name"
	}
	return "no rule that is about this caller allows it" + c.failures(k, item)
}

// failures says which rules would allow an item, if their matchers did not fail.
func (c *caller) failures(k revision.Kind, item policy.Item) string {
	var numbers []string
	for _, r := range c.rules {
		if c.failed[r.Number] != nil && r.Effect == policy.Allow.String() && c.set.Names(r.Number, k, item) {
			numbers = append(numbers, strconv.Itoa(r.Number))
		}
	}
	if numbers == nil {
		return ""
	}
	return "; the matcher of rule " + strings.Join(numbers, ", ") + " fails for this caller"
}
