package policy

import (
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Usage is of which patterns of rules some item is known that they name: one that
// names nothing may be misspelt. It is made by [Set.Usage].
type Usage struct {
	rules []Rule
	named [][]bool // by rule and pattern
}

// Usage returns the usage of the rules before any item is known.
func (s *Set) Usage() *Usage {
	u := &Usage{rules: s.rules, named: make([][]bool, len(s.rules))}
	for i, r := range s.rules {
		u.named[i] = make([]bool, len(r.Items))
	}
	return u
}

// Hints reports whether rules about that kind speak of hints.
func (u *Usage) Hints(k revision.Kind) bool {
	return slices.ContainsFunc(u.rules, func(r Rule) bool { return r.Kind == k && slices.ContainsFunc(r.Items, Pattern.isHint) })
}

// Add takes note of an item of that kind.
func (u *Usage) Add(k revision.Kind, i Item) {
	if of, ok := fold(k, i); ok {
		u.add(k, func(e Effect, p Pattern) bool { return p.matches(e, of) })
	}
}

// AddTemplate takes note of a URI template: rules about resources may name a URI that
// is made of it.
func (u *Usage) AddTemplate(template string) {
	beginning, _, _ := strings.Cut(template, "{")
	beginning = foldAuthority(beginning)
	u.add(revision.Resources, func(_ Effect, p Pattern) bool {
		own := p.text
		if i := strings.IndexAny(own, `*?[\`); i >= 0 {
			own = own[:i]
		}
		return strings.HasPrefix(own, beginning) || own != p.text && strings.HasPrefix(beginning, own)
	})
}

func (u *Usage) add(k revision.Kind, names func(Effect, Pattern) bool) {
	for rule, r := range u.rules {
		if r.Kind != k {
			continue
		}
		for i, p := range r.Items {
			u.named[rule][i] = u.named[rule][i] || names(r.Effect, p)
		}
	}
}

// Unused returns which patterns of a rule name nothing that is known, by their
// numbers.
func (u *Usage) Unused(rule int) []int {
	var unused []int
	for i, named := range u.named[rule] {
		if !named {
			unused = append(unused, i)
		}
	}
	return unused
}
