package report

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

// Rule is a rule of who may see and call what, and how it is.
type Rule struct {
	// Number is its place in the configuration, from 0 on.
	Number int    `json:"number"`
	Effect string `json:"effect"`
	Kind   string `json:"kind"`
	// Items are its patterns, as configured.
	Items []string `json:"items"`
	// Match are its matchers, as configured; absent if it is about everybody.
	Match json.RawMessage `json:"match,omitempty"`
	// Unused are the patterns that match nothing of the lists.
	Unused []string `json:"unused,omitempty"`
	// Failures is how often its matcher has failed.
	Failures int64 `json:"failures,omitempty"`
	// Failing says that it failed the last time.
	Failing bool `json:"failing,omitempty"`
}

// String returns the rule as a line of a Caddyfile without its matcher.
func (r Rule) String() string { return r.Effect + " " + r.Kind + " " + strings.Join(r.Items, " ") }

// View is what the callers to whom the same rules apply are shown.
type View struct {
	// Key tells it from views that show something else.
	Key string `json:"key"`
	// Rules are the numbers of those that are in effect.
	Rules []int       `json:"rules"`
	Lists []ShownList `json:"lists"`
}

// ShownList is a list as the callers of a view are shown it.
type ShownList struct {
	Kind     string `json:"kind"`
	Revision string `json:"revision"`
	Items    int    `json:"items"`
	Bytes    int    `json:"bytes"`
	Hits     uint64 `json:"hits"`
}

// describeRules adds to a status how the rules are, what there is to be warned of,
// and what views are in use.
func describeRules(status *Status, source Source) {
	p := source.Policy()
	if p == nil {
		return
	}
	status.Rules = p.Rules()
	if open := p.Set().Open(); open != nil {
		names := make([]string, len(open))
		for i, k := range open {
			names[i] = k.String()
		}
		status.Warnings = append(status.Warnings, fmt.Sprintf("tools are restricted, and no rule is about %s: they are open to everybody", strings.Join(names, ", ")))
	}
	for _, r := range status.Rules {
		status.Warnings = append(status.Warnings, r.warnings()...)
	}
	status.Views = describeViews(p, source.FilteredLists())
}

// warnings says what there is to be warned of with a rule.
func (r Rule) warnings() (texts []string) {
	if r.Failing {
		texts = append(texts, fmt.Sprintf("the matcher of rule %d has failed for the last caller (%s): whom it fails for %s", r.Number, r,
			map[bool]string{true: "does not get what it allows", false: "is kept from what it denies"}[r.Effect == "allow"]))
	}
	if len(r.Unused) > 0 {
		texts = append(texts, fmt.Sprintf("rule %d (%s) matches nothing of the lists with %s", r.Number, r, strings.Join(r.Unused, " ")))
	}
	return texts
}

// describeViews returns the views that are in use, those with the most hits first.
func describeViews(p Policy, shown []cache.FilteredList) []View {
	rules := make(map[[32]byte][]int)
	for _, v := range p.Set().Views() {
		// Rules that say the same have the same key, whichever of them it is of.
		if known, ok := rules[v.Key()]; !ok || slices.Compare(v.Rules(), known) < 0 {
			rules[v.Key()] = v.Rules()
		}
	}
	byKey := make(map[[32]byte][]cache.FilteredList)
	for _, list := range shown {
		if _, own := rules[list.View]; own { // not another handler's
			byKey[list.View] = append(byKey[list.View], list)
		}
	}
	views := make([]View, 0, len(byKey))
	for key, lists := range byKey {
		views = append(views, View{Key: hex.EncodeToString(key[:]), Rules: append([]int{}, rules[key]...), Lists: describeShown(lists)})
	}
	slices.SortFunc(views, func(a, b View) int {
		return cmp.Or(cmp.Compare(b.hits(), a.hits()), strings.Compare(a.Key, b.Key))
	})
	return views
}

func (v *View) hits() (n uint64) {
	for _, list := range v.Lists {
		n += list.Hits
	}
	return n
}

// describeShown describes the lists of a view.
func describeShown(lists []cache.FilteredList) []ShownList {
	described := make([]ShownList, len(lists))
	for i, list := range lists {
		described[i] = ShownList{list.Kind.String(), list.Revision.String(), list.Items, list.Bytes, list.Hits}
	}
	return described
}
