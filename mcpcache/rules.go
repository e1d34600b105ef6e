package mcpcache

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
)

// rules are a handler's. They implement the exchange's Rules.
type rules struct {
	set      *policy.Set
	matchers []*ruleMatcher
	path     string // of the endpoint whose requests they are about
	failed   func() // is called for each matcher that fails
	use      *ruleUse
}

// watch has it counted and logged what is wrong with the rules, as long as the configuration
// is in force.
func (h *Handler) watchRules(ctx caddy.Context, path string, use *ruleUse) {
	h.rules.path, h.rules.failed, h.rules.use = path, h.telemetry.RuleFailed, use
	h.app.onStart(func() { go h.rules.use.run(ctx) })
}

// Most implements the toolkit's Rules.
func (s *rules) Most() *policy.View { return s.set.Most() }

// ruleMatcher is a matcher of rules: those with the same one share it, so that it is
// evaluated once for a request.
type ruleMatcher struct {
	text     json.RawMessage // as configured
	matchers caddyhttp.MatcherSets
	allow    []int // rules, by number
	deny     []int
	failures atomic.Int64 // how many there were
	failing  atomic.Bool  // it failed the last time
	logger   *zap.Logger
}

// loadRules loads rules and their matchers. It returns nil if there are none. With unlisted,
// callers may name tools and prompts that are in none of their lists.
func loadRules(ctx caddy.Context, all []*Rule, unlisted bool, logger *zap.Logger) (*rules, error) {
	if len(all) == 0 {
		return nil, nil
	}
	if len(all) > policy.MaxRules {
		return nil, fmt.Errorf("rules: there are %d, more than %d", len(all), policy.MaxRules)
	}
	loaded := new(rules)
	parsed := make([]policy.Rule, len(all))
	byText := make(map[string]*ruleMatcher)
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
			m = &ruleMatcher{text: text, logger: logger}
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

func (m *ruleMatcher) load(ctx caddy.Context, r *Rule) error {
	sets, err := ctx.LoadModule(r, "MatcherSetsRaw")
	if err != nil {
		return err
	}
	return m.matchers.FromInterface(sets)
}

// View returns what the caller of a request may see and call. A matcher that fails counts
// as no match for what it allows, and as a match for what it denies.
func (s *rules) View(r *http.Request) *policy.View {
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

// viewOf is View for a request that nobody has sent. It also returns why matchers fail, by
// the numbers of their rules.
func (s *rules) viewOf(r *http.Request) (*policy.View, map[int]error) {
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
func (m *ruleMatcher) match(r *http.Request, matched *policy.Matched) error {
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
func (m *ruleMatcher) rules() []int {
	numbers := slices.Concat(m.allow, m.deny)
	slices.Sort(numbers)
	return numbers
}

func addAll(m *policy.Matched, rules []int) {
	for _, i := range rules {
		m.Add(i)
	}
}

// note says that a matcher has begun to fail, or does so no more.
func (m *ruleMatcher) note(err error) {
	if err != nil {
		m.logger.Error("matcher of rules fails: whom it fails for gets nothing that its rules allow, and is kept from what they deny",
			zap.Ints("rules", m.rules()), zap.Error(err))
		return
	}
	m.logger.Info("matcher of rules works again", zap.Ints("rules", m.rules()))
}
