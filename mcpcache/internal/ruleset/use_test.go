package ruleset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// usedRules are rules that look at the lists that a test sets.
type usedRules struct {
	*use

	t     *testing.T
	known map[string]*cache.Entry // by revision and kind
	log   *observer.ObservedLogs
}

func newUsedRules(t *testing.T, templates bool, rules ...Rule) *usedRules {
	t.Helper()
	parsed := make([]policy.Rule, len(rules))
	for i, r := range rules {
		var err error
		if parsed[i], err = r.parse(); err != nil {
			t.Fatal(err)
		}
	}
	core, log := observer.New(zapcore.DebugLevel)
	u := &usedRules{t: t, known: make(map[string]*cache.Entry), log: log}
	u.use = newUse(policy.NewSet(parsed, true), func() (lists []*catalog.List) {
		for _, r := range revision.All() {
			for _, k := range revision.Kinds() {
				if e := u.known[fmt.Sprint(r, k)]; e != nil {
					lists = append(lists, &catalog.List{Entry: e})
				}
			}
		}
		return lists
	}, templates, zap.New(core))
	return u
}

// set has a list of items of those names be known. What begins with get is hinted as
// read-only.
func (u *usedRules) set(r revision.Revision, k revision.Kind, names ...string) {
	u.t.Helper()
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = fmt.Sprintf(`{%q:%q,"annotations":{"readOnlyHint":%v}}`, k.IDKey(), name, strings.HasPrefix(name, "get"))
	}
	page, err := message.ParsePage(fmt.Appendf(nil, `{%q:[%s]}`, k.ItemsKey(), strings.Join(items, ",")), k)
	if err != nil {
		u.t.Fatal(err)
	}
	u.known[fmt.Sprint(r, k)] = &cache.Entry{Kind: k, Revision: r, Body: message.Single(k, page)}
}

// want looks, and wants those patterns unused and those lines in the log since.
func (u *usedRules) want(unused string, lines ...string) {
	u.t.Helper()
	if got := fmt.Sprint(u.findUnused()); got != unused {
		u.t.Errorf("unused are %s, want %s", got, unused)
	}
	u.wantLogged(lines...)
}

func (u *usedRules) wantLogged(lines ...string) {
	u.t.Helper()
	var said []string
	for _, line := range u.log.TakeAll() {
		said = append(said, fmt.Sprint(line.Level, " ", line.ContextMap()["rule"], " ", line.ContextMap()["patterns"]))
	}
	if !slices.Equal(said, lines) {
		u.t.Errorf("the log has %q, want %q", said, lines)
	}
}

// TestRulesThatMatchNothing finds them once a list of their kind is known: at any revision
// is enough. Each change is logged once.
func TestRulesThatMatchNothing(t *testing.T) {
	u := newUsedRules(t, true,
		Rule{Effect: "allow", Kind: "tools", Items: []string{"get_*", "serach_*"}},
		Rule{Effect: "deny", Kind: "tools", Items: []string{"hint:destructive"}},
		Rule{Effect: "deny", Kind: "prompts", Items: []string{"x"}},
		Rule{Effect: "deny", Kind: "tools", Items: []string{"only_legacy"}},
	)
	u.want("[[] [] [] []]")
	u.set(revision.LatestModern, revision.Tools, "get_a", "get_b")
	u.set(revision.LatestLegacy, revision.Tools, "get_a", "only_legacy")
	u.want("[[1] [] [] []]", "warn 0 [serach_*]")
	u.want("[[1] [] [] []]")
	u.set(revision.LatestLegacy, revision.Tools, "get_a", "get_b")
	u.want("[[1] [0] [] [0]]", "warn 1 [hint:destructive]", "warn 3 [only_legacy]")
	u.set(revision.LatestModern, revision.Tools, "serach_a", "only_legacy")
	u.set(revision.LatestModern, revision.Prompts)
	u.want("[[] [] [0] []]", "info 0 <nil>", "info 1 <nil>", "warn 2 [x]", "info 3 <nil>")
	clear(u.known) // nothing is known any more: it is as it was
	u.want("[[] [] [0] []]")
}

// TestResourceRulesKnowTemplates has a rule about URIs that only a template makes. Where
// templates are not cached, nobody knows what resources there may be.
func TestResourceRulesKnowTemplates(t *testing.T) {
	for templates, unused := range map[bool]string{true: "[[1]]", false: "[[]]"} {
		u := newUsedRules(t, templates, Rule{Effect: "allow", Kind: "resources", Items: []string{"docs://a/*", "file:*"}})
		u.set(revision.LatestModern, revision.Resources, "test://x")
		u.set(revision.LatestModern, revision.ResourceTemplates, "docs://{area}/{x}")
		if got := fmt.Sprint(u.findUnused()); got != unused {
			t.Errorf("with templates %v, unused are %s, want %s", templates, got, unused)
		}
	}
}

// TestRulesAreLookedAfter looks at the lists again and again until the context ends, also when
// nobody asks.
func TestRulesAreLookedAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsedRules(t, true, Rule{Effect: "deny", Kind: "tools", Items: []string{"x", "y"}})
		rules := &Rules{use: u.use}
		u.set(revision.LatestModern, revision.Tools, "y")
		ctx, cancel := context.WithCancel(t.Context())
		go rules.Run(ctx)
		synctest.Wait()
		u.wantLogged() // the lists of a start come one after the other
		time.Sleep(2 * lookPause)
		u.wantLogged("warn 0 [x]")
		cancel()
		synctest.Wait() // until nobody looks any more
		u.set(revision.LatestModern, revision.Tools, "x")
		time.Sleep(2 * lookPause)
		u.wantLogged()
	})
}
