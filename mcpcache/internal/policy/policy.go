// Package policy decides what a caller may see and call. Its rules allow or deny items by name, or
// by what the items say of themselves. The package ruleset finds out which rules apply to a
// caller. This package knows nothing of requests, of Caddy, and of lists.
package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Effect is what a rule does.
type Effect uint8

const (
	// Allow lets through what the rule names, and closes its kind to what no rule
	// allows.
	Allow Effect = iota
	// Deny keeps out what the rule names, whatever other rules say.
	Deny
)

// String returns the word of the configuration.
func (e Effect) String() string { return [...]string{"allow", "deny"}[e] }

// Rule allows or denies items of one kind to some callers.
type Rule struct {
	Effect Effect
	// Kind is tools, prompts, resources or resource_templates.
	Kind  revision.Kind
	Items []Pattern
	// Everybody says that the rule applies to all callers.
	Everybody bool
}

// MaxRules is how many rules there may be.
const MaxRules = 256

// Matched has the numbers of the rules that apply to a caller.
type Matched [MaxRules / 64]uint64

// Add adds a rule by its number.
func (m *Matched) Add(rule int) { m[rule/64] |= 1 << (rule % 64) }

// has reports whether a rule applies.
func (m *Matched) has(rule int) bool { return m[rule/64]&(1<<(rule%64)) != 0 }

// Set is all rules of a handler. All methods may be called from several goroutines at
// once.
type Set struct {
	rules []Rule
	// unlisted says that callers may name tools and prompts that are in none of their lists.
	unlisted bool

	mu    sync.RWMutex
	views map[Matched]*View
}

// NewSet returns the set of at most [MaxRules] rules. With unlisted, callers may name tools
// and prompts that are in none of their lists.
func NewSet(rules []Rule, unlisted bool) *Set {
	return &Set{rules: rules, unlisted: unlisted, views: make(map[Matched]*View)}
}

// Rules returns the rules. They are not to be changed.
func (s *Set) Rules() []Rule { return s.rules }

// Open returns the kinds with items that no rule is about, if there are rules about
// tools: whoever restricts those may have forgotten the others.
func (s *Set) Open() []revision.Kind {
	var named revision.KindSet
	for _, r := range s.rules {
		named |= revision.SetOf(r.Kind)
	}
	if !named.Has(revision.Tools) || named.Has(revision.Prompts) && named.Has(revision.Resources) {
		return nil
	}
	return slices.DeleteFunc(revision.Kinds(), func(k revision.Kind) bool { return k.ItemsKey() == "" || named.Has(k) })
}

// maxViews is how many views are remembered. There are no more than combinations of
// rules that apply to real callers, which are few.
const maxViews = 1024

// View returns what a caller may see and call to whom those rules apply, besides those
// that apply to everybody.
func (s *Set) View(m Matched) *View {
	s.mu.RLock()
	v := s.views[m]
	s.mu.RUnlock()
	if v != nil {
		return v
	}
	v = newView(s.rules, m)
	v.unlisted = s.unlisted
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.views[m]; known != nil {
		return known
	}
	if len(s.views) >= maxViews {
		clear(s.views)
	}
	s.views[m] = v
	return v
}

// Most returns the view of a caller who may see as much as anybody: to whom all applies that
// allows something, and of what denies only that which applies to everybody.
func (s *Set) Most() *View {
	var m Matched
	for i, r := range s.rules {
		if r.Effect == Allow {
			m.Add(i)
		}
	}
	return s.View(m)
}

// Views returns the views that are remembered.
func (s *Set) Views() []*View {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.views))
}

// View is what one caller may see and call. It is immutable. Nil restricts nothing.
type View struct {
	key        [32]byte
	rules      []int            // those that apply
	restricted revision.KindSet // kinds of which some item might be hidden
	unlisted   bool             // see Set
	kinds      [revision.NumKinds]kindView
}

// kindView is the rules about one kind that apply to a caller.
type kindView struct {
	closed      bool // to what no rule allows
	personal    bool // others may see something else
	allow, deny []pattern
}

// pattern is one of the rule of that number.
type pattern struct {
	Pattern

	rule int
}

func newView(rules []Rule, m Matched) *View {
	v := new(View)
	for i, r := range rules {
		k := &v.kinds[r.Kind]
		k.closed, k.personal = k.closed || r.Effect == Allow, k.personal || !r.Everybody
		if !r.Everybody && !m.has(i) {
			continue
		}
		v.rules = append(v.rules, i)
		patterns := &k.allow
		if r.Effect == Deny {
			patterns = &k.deny
		}
		for _, p := range r.Items {
			*patterns = append(*patterns, pattern{p, i})
		}
	}
	v.kinds[revision.Reads] = v.kinds[revision.Resources]
	for k := range v.kinds {
		if v.kinds[k].closed || len(v.kinds[k].deny) > 0 {
			v.restricted |= revision.SetOf(revision.Kind(k))
		}
	}
	v.key = v.hash()
	return v
}

// hash tells views that show the same from others, whatever handler or configuration
// they belong to.
func (v *View) hash() [32]byte {
	var text []byte
	for _, k := range v.kinds {
		text = fmt.Appendf(text, "%t %t ", k.closed, k.personal)
		text = appendPatterns(appendPatterns(text, k.allow), k.deny)
	}
	return sha256.Sum256(text)
}

// appendPatterns appends patterns: their order, and in which rule they are, makes no
// difference.
func appendPatterns(dst []byte, patterns []pattern) []byte {
	texts := make([]string, len(patterns))
	for i, p := range patterns {
		texts[i] = p.String()
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	dst = binary.AppendUvarint(dst, uint64(len(texts)))
	for _, text := range texts {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return dst
}

// Key tells the view from all that show something else, or say otherwise whether others
// see something else.
func (v *View) Key() [32]byte { return v.key }

// Rules returns the numbers of the rules that apply to its callers, in order.
func (v *View) Rules() []int { return v.rules }

// Restricts reports whether some item of that kind might be hidden.
func (v *View) Restricts(k revision.Kind) bool { return v != nil && v.restricted.Has(k) }

// RestrictsAny reports whether some item of any kind might be hidden.
func (v *View) RestrictsAny() bool { return v != nil && v.restricted != 0 }

// Personal reports whether others may see other items of that kind.
func (v *View) Personal(k revision.Kind) bool { return v != nil && v.kinds[k].personal }

// NeedsHints reports whether rules about that kind speak of hints: then nothing can be
// said of an item by its name alone.
func (v *View) NeedsHints(k revision.Kind) bool {
	return v != nil && (slices.ContainsFunc(v.kinds[k].allow, pattern.isHint) || slices.ContainsFunc(v.kinds[k].deny, pattern.isHint))
}

// NeedsList reports whether the caller may name only items of that kind that are in a list
// of the caller: rules speak of hints, which a list alone has, or of the kind, and a server
// may take a name that it does not list.
func (v *View) NeedsList(k revision.Kind) bool {
	return v.NeedsHints(k) || v.Restricts(k) && !v.unlisted && (k == revision.Tools || k == revision.Prompts)
}

// Decision is what a view says of an item.
type Decision struct {
	// Allowed says that the caller may see and call it.
	Allowed bool
	// Rule is the number of the first rule that decides so; -1 if none does, as none names
	// the item.
	Rule int
}

// Decide says whether the caller may see and call an item of that kind.
func (v *View) Decide(k revision.Kind, i Item) Decision {
	if !v.Restricts(k) {
		return Decision{Allowed: true, Rule: -1}
	}
	of, ok := fold(k, i)
	if !ok || i.Name == "" {
		return Decision{Rule: -1}
	}
	kind := &v.kinds[k]
	if rule := firstThatNames(Deny, kind.deny, of); rule >= 0 {
		return Decision{Rule: rule}
	}
	rule := firstThatNames(Allow, kind.allow, of)
	return Decision{Allowed: !kind.closed || rule >= 0, Rule: rule}
}

// firstThatNames returns the number of the first rule that names an item, or -1.
func firstThatNames(e Effect, patterns []pattern, i spelled) int {
	for _, p := range patterns {
		if p.matches(e, i) {
			return p.rule
		}
	}
	return -1
}

// Names reports whether a rule is about an item of that kind.
func (s *Set) Names(rule int, k revision.Kind, i Item) bool {
	r := s.rules[rule]
	of, ok := fold(k, i)
	return ok && r.Kind == k && slices.ContainsFunc(r.Items, func(p Pattern) bool { return p.matches(r.Effect, of) })
}

// ItemOf returns an item as written in a list, as far as rules look at it.
func (v *View) ItemOf(k revision.Kind, item []byte) Item {
	i := Item{Name: message.NameOf(k, item)}
	if v.NeedsHints(k) {
		i.Hints = HintsOf(item)
	}
	return i
}

// Shows reports whether a list of that kind shows an item, as written. One without a
// name that can be read is hidden where anything might be.
func (v *View) Shows(k revision.Kind, item []byte) bool {
	if !v.Restricts(k) {
		return true
	}
	return v.Decide(k, v.ItemOf(k, item)).Allowed
}

// Certain reports whether rules can say anything certain of what has that name. What has
// another one is hidden where there are rules about its kind.
func Certain(k revision.Kind, name string) bool {
	_, ok := fold(k, Item{Name: name})
	return ok
}

// spelled is an item as it is compared. meant is its name without percent-encoding, bare
// what servers may look at alone of a URI: see [bare].
type spelled struct {
	Item

	meant, bare string
}

// MaxName is how many bytes a name or URI may have for rules to be certain of it. To look at a
// longer one costs more than a request may.
const MaxName = 64 << 10

// fold returns an item as it is compared, or false if nothing certain can be said of
// what has its name.
func fold(k revision.Kind, i Item) (of spelled, ok bool) {
	if max(len(i.Name), len(i.Full)) > MaxName || !plain(i.Name) || !plain(i.Full) {
		return of, false
	}
	if k == revision.Tools || k == revision.Prompts {
		return spelled{Item: i, meant: i.Name, bare: i.Name}, true
	}
	if i.Name, ok = foldURI(i.Name); !ok {
		return of, false
	}
	of = spelled{Item: i, meant: decode(i.Name)}
	of.bare = of.meant
	if k != revision.ResourceTemplates {
		of.bare = bare(of.meant)
	}
	return of, plain(of.meant)
}
