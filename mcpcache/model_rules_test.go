package mcpcache

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// These are the rules of the product's configuration, and what they mean. The test
// has an opinion of its own of that: it uses nothing of what the product decides by.

// modelRule is a rule.
type modelRule struct {
	deny bool
	kind revision.Kind
	what []modelPattern
	// unlisted, the same for all rules, is the option of that name: rules go by names alone.
	unlisted bool
}

// modelRules are the rules of a configuration; nil: there are none.
type modelRules []modelRule

// modelPattern is a glob and what it means, or a hint.
type modelPattern struct {
	text  string
	names *regexp.Regexp
	hint  func(modelHints) bool
}

func modelGlob(text, means string) modelPattern {
	return modelPattern{text: text, names: regexp.MustCompile("^(?s:" + means + ")$")}
}

// modelPatterns are what rules are drawn from.
var modelPatterns = map[revision.Kind][]modelPattern{
	revision.Tools: {
		modelGlob("*", ".*"), modelGlob("tools-[024]", "tools-[024]"), modelGlob("*-1", ".*-1"), modelGlob("tools-?", "tools-."),
		modelGlob("change:*", "change:.*"), modelGlob("log*", "log.*"),
		{text: "hint:read_only", hint: func(h modelHints) bool { return h.readOnly == "true" }},
		{text: "hint:destructive", hint: func(h modelHints) bool { return h.readOnly != "true" && h.destructive != "false" }},
		{text: "hint:idempotent", hint: func(h modelHints) bool { return h.readOnly == "true" || h.idempotent == "true" }},
		{text: "hint:open_world", hint: func(h modelHints) bool { return h.openWorld != "false" }},
	},
	revision.Prompts: {modelGlob("*", ".*"), modelGlob("prompts-[13]", "prompts-[13]"), modelGlob("*-0", ".*-0")},
	revision.Resources: {
		modelGlob("*", ".*"), modelGlob("FILE:///resources-[024]", "file:///resources-[024]"), modelGlob("file:///r", "file:///r"),
		modelGlob("file:*-1", "file:.*-1"), modelGlob("file:///r?*", "file:///r.+"),
	},
	revision.ResourceTemplates: {
		modelGlob("*", ".*"), modelGlob("file:///*[12]", "file:///.*[12]"), modelGlob("*-0", ".*-0"),
	},
}

// newRules draws rules.
func newRules(r *rand.Rand) (rules modelRules) {
	unlisted := r.IntN(2) == 0
	for range 1 + r.IntN(5) {
		k := pick(r, revision.Tools, revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates)
		rule := modelRule{deny: r.IntN(5) < 2, kind: k, unlisted: unlisted}
		for range 1 + r.IntN(2) {
			rule.what = append(rule.what, pick(r, modelPatterns[k]...))
		}
		rules = append(rules, rule)
	}
	return rules
}

func (r modelRule) effect() string {
	if r.deny {
		return "deny"
	}
	return "allow"
}

func (r modelRule) items() (texts []string) {
	for _, p := range r.what {
		texts = append(texts, p.text)
	}
	return texts
}

// String is for the trace.
func (r modelRule) String() string {
	return fmt.Sprintf("%s %s %s", r.effect(), r.kind, strings.Join(r.items(), " "))
}

// config is how the rules are configured.
func (m modelRules) config() (c []any) {
	for _, r := range m {
		c = append(c, map[string]any{"effect": r.effect(), "kind": r.kind.String(), "items": r.items()})
	}
	return c
}

// about returns the rules about a kind. What is read goes by those about resources.
func (m modelRules) about(k revision.Kind) modelRules {
	if k == revision.Reads {
		k = revision.Resources
	}
	return slices.DeleteFunc(slices.Clone(m), func(r modelRule) bool { return r.kind != k })
}

// restricts reports whether something of a kind may be hidden.
func (m modelRules) restricts(k revision.Kind) bool { return len(m.about(k)) > 0 }

func (m modelRules) restrictsAny() bool { return len(m) > 0 }

// byHints reports whether it depends on hints what is shown of a kind.
func (m modelRules) byHints(k revision.Kind) bool {
	return slices.ContainsFunc(m.about(k), func(r modelRule) bool {
		return slices.ContainsFunc(r.what, func(p modelPattern) bool { return p.hint != nil })
	})
}

// byList reports whether it depends on the caller's list what may be named of a kind.
func (m modelRules) byList(k revision.Kind) bool {
	return m.byHints(k) || (k == revision.Tools || k == revision.Prompts) && m.restricts(k) && !m[0].unlisted
}

// shows reports whether an item is shown. What is denied is also in another spelling that
// servers may take for it.
func (m modelRules) shows(k revision.Kind, name string) bool {
	if k != revision.Tools && k != revision.Prompts && m.restricts(k) {
		if strings.Contains(name, "..") {
			return false
		}
		name = strings.NewReplacer("FILE:", "file:", "%72", "r").Replace(name)
	}
	closed, allowed := false, false
	for _, r := range m.about(k) {
		names := r.names(name)
		if r.deny && (names || r.names(strings.Replace(name, "file:////", "file:///", 1))) {
			return false
		}
		closed, allowed = closed || !r.deny, allowed || !r.deny && names
	}
	return allowed || !closed
}

func (r modelRule) names(name string) bool {
	return slices.ContainsFunc(r.what, func(p modelPattern) bool { return p.is(name) })
}

func (p modelPattern) is(name string) bool {
	if p.names != nil {
		return p.names.MatchString(name)
	}
	h, ok := hintsOfTool(name)
	return ok && p.hint(h)
}

// modelHints are what a tool says of itself; "" is nothing.
type modelHints struct{ readOnly, destructive, idempotent, openWorld string }

// hintsByNumber are the hints of tools, by their number in the list.
var hintsByNumber = []modelHints{
	{}, {readOnly: "true"}, {readOnly: "false", destructive: "false"}, {idempotent: "true", openWorld: "false"},
	{destructive: "true", readOnly: "null"},
}

// hintsOfTool returns the hints of a tool by its name. It reports false if no list
// ever has a tool of that name.
func hintsOfTool(name string) (h modelHints, ok bool) {
	number, ok := strings.CutPrefix(name, "tools-")
	n, err := strconv.Atoi(number)
	if err != nil || !ok || n < 0 {
		return h, false
	}
	return hintsByNumber[n%len(hintsByNumber)], true
}

// annotations are the hints as a member of the tool, behind others.
func (h modelHints) annotations() string {
	var said []string
	for _, hint := range [...][2]string{
		{"readOnlyHint", h.readOnly}, {"destructiveHint", h.destructive}, {"idempotentHint", h.idempotent}, {"openWorldHint", h.openWorld},
	} {
		if hint[1] != "" {
			said = append(said, fmt.Sprintf("%q:%s", hint[0], hint[1]))
		}
	}
	if said == nil {
		return ""
	}
	return `,"annotations":{` + strings.Join(said, ",") + "}"
}
