// Package ruleset loads the rules of a configuration, and finds out what they leave to the caller
// of a request. It looks at the request by Caddy's matchers. The package policy decides what the
// matching rules mean for an item.
//
// It also tells operators about the rules: which patterns match nothing, and which matchers fail.
// [Rules.ViewAs] says what a caller would see without a request of that caller.
package ruleset

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
)

// Rules are the rules of a handler, or of one server among several. [Load] makes them.
//
// View and Most decide about requests. Rules, Set and ViewAs tell operators about the rules.
type Rules struct {
	configured []*Rule
	set        *policy.Set
	matchers   []*matcher
	path       string // of the endpoint whose requests the rules are about
	failed     func() // is called for each matcher that fails
	use        *use
}

// Watch says which requests and lists the rules are about. It is called once, before View.
//
// path is the path of the endpoint. failed is called each time that a matcher fails. lists
// returns the feeds' lists, of those revisions of which all are there. templates says whether the
// lists of templates are among them if the server has some.
func (s *Rules) Watch(path string, failed func(), lists func() []*catalog.List, templates bool, logger *zap.Logger) {
	s.path, s.failed, s.use = path, failed, newUse(s.set, lists, templates, logger)
}

// Run logs the patterns of rules that match nothing of the lists, until ctx ends.
func (s *Rules) Run(ctx context.Context) { s.use.run(ctx) }

// Widest returns the view of a caller who may see as much as anybody.
func (s *Rules) Widest() *policy.View { return s.set.Most() }

// Same reports whether both have the same rules, whatever their matchers. Without rules, they are
// nil.
func (s *Rules) Same(other *Rules) bool {
	if s == nil || other == nil {
		return s == other
	}
	return reflect.DeepEqual(s.configured, other.configured)
}

// matcher holds the matchers of a rule. Rules with the same matchers share it, so that they are
// evaluated once for a request.
type matcher struct {
	text     json.RawMessage // as configured
	matchers caddyhttp.MatcherSets
	allow    []int // rules, by number
	deny     []int
	failures atomic.Int64 // how many there were
	failing  atomic.Bool  // it failed the last time
	logger   *zap.Logger
}

// Load loads rules and their matchers. It returns nil if there are no rules. With unlisted,
// callers may name tools and prompts that are in none of their lists.
func Load(ctx caddy.Context, all []*Rule, unlisted bool, logger *zap.Logger) (*Rules, error) {
	if len(all) == 0 {
		return nil, nil
	}
	if len(all) > policy.MaxRules {
		return nil, fmt.Errorf("rules: there are %d, more than %d", len(all), policy.MaxRules)
	}
	loaded := &Rules{configured: all}
	parsed := make([]policy.Rule, len(all))
	byText := make(map[string]*matcher)
	for i, rule := range all {
		var err error
		if parsed[i], err = rule.parse(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
		if parsed[i].Everybody {
			continue
		}
		text, err := json.Marshal(rule.MatcherSetsRaw)
		if err != nil {
			return nil, fmt.Errorf("rule %d: match: %w", i, err)
		}
		m := byText[string(text)]
		if m == nil {
			m = &matcher{text: text, logger: logger}
			if err := m.load(ctx, rule); err != nil {
				return nil, fmt.Errorf("rule %d: match: %w", i, err)
			}
			byText[string(text)] = m
			loaded.matchers = append(loaded.matchers, m)
		}
		if parsed[i].Effect == policy.Allow {
			m.allow = append(m.allow, i)
		} else {
			m.deny = append(m.deny, i)
		}
	}
	loaded.set = policy.NewSet(parsed, unlisted)
	if open := loaded.set.Open(); open != nil {
		logger.Warn("tools are restricted, and no rule is about other kinds: they are open to everybody", zap.Stringers("open", open))
	}
	return loaded, nil
}

func (m *matcher) load(ctx caddy.Context, r *Rule) error {
	sets, err := ctx.LoadModule(r, "MatcherSetsRaw")
	if err != nil {
		return err
	}
	return m.matchers.FromInterface(sets)
}

// View returns what the caller of a request may see and call. A matcher that fails counts
// as no match for what it allows, and as a match for what it denies.
func (s *Rules) View(r *http.Request) *policy.View {
	var matched policy.Matched
	for _, m := range s.matchers {
		err := m.match(r, &matched)
		if err != nil {
			m.failures.Add(1)
			s.failed()
		}
		if failing := err != nil; m.failing.Load() != failing && m.failing.CompareAndSwap(!failing, failing) {
			m.note(err)
		}
	}
	return s.set.View(matched)
}

// viewOf is View for a request that nobody has sent. It also returns the errors of matchers that
// fail, by the numbers of their rules.
func (s *Rules) viewOf(r *http.Request) (*policy.View, map[int]error) {
	var matched policy.Matched
	failed := make(map[int]error)
	for _, m := range s.matchers {
		if err := m.match(r, &matched); err != nil {
			for _, i := range m.rules() {
				failed[i] = err
			}
		}
	}
	return s.set.View(matched), failed
}

// match adds the rules that apply to the caller of a request.
func (m *matcher) match(r *http.Request, matched *policy.Matched) error {
	is, err := m.matchers.AnyMatchWithError(r)
	if err == nil && is {
		addAll(matched, m.allow)
	}
	if err != nil || is {
		addAll(matched, m.deny)
	}
	return err
}

// rules returns the numbers of the rules that have the matcher, in order.
func (m *matcher) rules() []int {
	numbers := slices.Concat(m.allow, m.deny)
	slices.Sort(numbers)
	return numbers
}

func addAll(m *policy.Matched, rules []int) {
	for _, i := range rules {
		m.Add(i)
	}
}

// note logs that a matcher has begun to fail, or works again.
func (m *matcher) note(err error) {
	if err != nil {
		m.logger.Error("matcher of rules fails: whom it fails for gets nothing that its rules allow, and is kept from what they deny",
			zap.Ints("rules", m.rules()), zap.Error(err))
		return
	}
	m.logger.Info("matcher of rules works again", zap.Ints("rules", m.rules()))
}
