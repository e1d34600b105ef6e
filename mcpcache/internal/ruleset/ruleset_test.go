package ruleset

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func init() {
	caddy.RegisterModule(new(moodyMatcher))
}

// moodyMatcher is a matcher that matches, or fails, if a request's header says so.
type moodyMatcher struct{}

func (*moodyMatcher) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.matchers.mcp_cache_moody", New: func() caddy.Module { return new(moodyMatcher) }}
}

// MatchWithError implements [caddyhttp.RequestMatcherWithError].
func (*moodyMatcher) MatchWithError(r *http.Request) (bool, error) {
	mood := r.Header.Get("X-Mood")
	if mood == "bad" {
		return false, errors.New("bad mood")
	}
	return mood == "good", nil
}

// TestLoadRules has as many rules as there may be, and none.
func TestLoadRules(t *testing.T) {
	rules := make([]*Rule, policy.MaxRules)
	for i := range rules {
		rules[i] = &Rule{Effect: "allow", Kind: "tools", Items: []string{fmt.Sprint("t", i)}}
	}
	rules[0] = &Rule{Effect: "deny", Kind: "resources", Items: []string{"docs://a/*", "docs://b"}}
	loaded, err := Load(caddy.Context{}, rules, true, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	v := loaded.View(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", http.NoBody))
	for kind, items := range map[revision.Kind]map[string]bool{
		revision.Tools:     {"t0": false, "t1": true, "t255": true, "t256": false},
		revision.Prompts:   {"a": true},
		revision.Resources: {"docs://a/x": false, "docs://b": false, "docs://c": true},
	} {
		for name, want := range items {
			if got := v.Decide(kind, policy.Item{Name: name}).Allowed; got != want {
				t.Errorf("%s %s is allowed: %v", kind, name, got)
			}
		}
	}
	for _, none := range [][]*Rule{nil, {}} {
		if v, err := Load(caddy.Context{}, none, true, zap.NewNop()); v != nil || err != nil {
			t.Errorf("%v gave %v, %v", none, v, err)
		}
	}
}

// TestWarningOfOpenKinds restricts tools, and perhaps others: one warning names the
// kinds that may have been forgotten.
func TestWarningOfOpenKinds(t *testing.T) {
	for kinds, want := range map[string]string{
		"tools":                   "[prompts resources resource_templates]",
		"tools prompts":           "[resources resource_templates]",
		"tools resources":         "[prompts resource_templates]",
		"tools prompts resources": "",
		"prompts":                 "",
	} {
		var rules []*Rule
		for kind := range strings.FieldsSeq(kinds) {
			rules = append(rules, &Rule{Effect: "deny", Kind: kind, Items: []string{"a"}})
		}
		core, logs := observer.New(zap.WarnLevel)
		if _, err := Load(caddy.Context{}, rules, true, zap.New(core)); err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, entry := range logs.All() {
			said = append(said, fmt.Sprint(entry.ContextMap()["open"]))
		}
		if got := strings.Join(said, " "); got != want {
			t.Errorf("with rules about %s the log names %q, want %q", kinds, got, want)
		}
	}
}

// loadRules loads rules as Caddy does, and returns the log of what they say.
func loadRules(t *testing.T, texts ...string) (*Rules, *observer.ObservedLogs) {
	t.Helper()
	var configured []*Rule
	if err := json.Unmarshal([]byte("["+strings.Join(texts, ",")+"]"), &configured); err != nil {
		t.Fatal(err)
	}
	base, err := caddy.ProvisionContext(&caddy.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(base)
	t.Cleanup(cancel)
	core, logs := observer.New(zapcore.InfoLevel)
	logger := zap.New(core)
	rules, err := Load(ctx, configured, false, logger)
	if err != nil {
		t.Fatal(err)
	}
	rules.Watch("/mcp", func() {}, func() []*catalog.List { return nil }, true, logger)
	logs.TakeAll()
	return rules, logs
}

// caller is a request with those headers, and with those groups if they are not "".
func caller(t *testing.T, groups string, header ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	repl := caddy.NewReplacer()
	if groups != "" {
		repl.Set("http.auth.user.groups", groups)
	}
	return caddyhttp.PrepareRequest(r, repl, httptest.NewRecorder(), nil)
}

// shown are those of some tools that the caller of a request may see.
func shown(s *Rules, r *http.Request, tools ...string) []string {
	v := s.View(r)
	return slices.DeleteFunc(tools, func(name string) bool { return !v.Decide(revision.Tools, policy.Item{Name: name}).Allowed })
}

// TestWhoMatches has rules of several sets of matchers, and of none.
func TestWhoMatches(t *testing.T) {
	s, _ := loadRules(t,
		`{"effect":"allow","kind":"tools","items":["a"]}`,
		`{"effect":"allow","kind":"tools","items":["b"],"match":[]}`,
		`{"effect":"allow","kind":"tools","items":["d"],"match":[{"header":{"X-A":["1"]}},{"header":{"X-B":["1"]}}]}`,
		`{"effect":"allow","kind":"tools","items":["e"],"match":[{"header":{"X-A":["1"],"X-B":["1"]}}]}`,
		`{"effect":"deny","kind":"tools","items":["a"],"match":[{"header":{"X-A":["1"]}}]}`,
	)
	for _, c := range []struct {
		header []string
		want   string
	}{
		{nil, "a b"},
		{[]string{"X-B", "1"}, "a b d"},
		{[]string{"X-A", "1"}, "b d"},
		{[]string{"X-A", "1", "X-B", "1"}, "b d e"},
		{[]string{"X-A", "2"}, "a b"},
	} {
		if got := strings.Join(shown(s, caller(t, "", c.header...), "a", "b", "d", "e", "f"), " "); got != c.want {
			t.Errorf("with %v are shown %q, want %q", c.header, got, c.want)
		}
	}
}

// TestFailingExpression has the expression that fails for every caller without groups:
// such a caller gets nothing of what it allows, and is kept from what it denies.
func TestFailingExpression(t *testing.T) {
	const admins = `"match":[{"expression":"'admin' in {http.auth.user.groups}.split(',')"}]`
	s, logs := loadRules(t,
		`{"effect":"allow","kind":"tools","items":["public","denied"]}`,
		`{"effect":"allow","kind":"tools","items":["secret"],`+admins+`}`,
		`{"effect":"deny","kind":"tools","items":["denied"],`+admins+`}`,
	)
	ask := func(groups, want string) {
		t.Helper()
		if got := strings.Join(shown(s, caller(t, groups), "public", "secret", "denied"), " "); got != want {
			t.Errorf("with groups %q are shown %q, want %q", groups, got, want)
		}
	}
	ask("users", "public denied")
	ask("users,admin", "public secret")
	ask("", "public")
	ask("", "public")
	if len(s.matchers) != 1 {
		t.Errorf("there are %d matchers of two rules with the same one", len(s.matchers))
	}
	ask("users", "public denied")
	ask("", "public")
	var told []string
	for _, entry := range logs.All() {
		told = append(told, entry.Level.String()+" "+fmt.Sprint(entry.ContextMap()["rules"]))
	}
	if want := []string{"error [1 2]", "info [1 2]", "error [1 2]"}; !slices.Equal(told, want) {
		t.Errorf("the log says %v, want %v", told, want)
	}
}

// TestFailingMatchers has one of two matchers fail, for many callers at once: the
// other one's rules are as ever, each failure is counted, and one line is logged.
func TestFailingMatchers(t *testing.T) {
	s, logs := loadRules(t,
		`{"effect":"allow","kind":"tools","items":["moody"],"match":[{"mcp_cache_moody":{}}]}`,
		`{"effect":"allow","kind":"tools","items":["not"],"match":[{"not":[{"mcp_cache_moody":{}}]}]}`,
		`{"effect":"allow","kind":"tools","items":["steady"],"match":[{"header":{"X-Mood":["bad"]}}]}`,
	)
	var failed atomic.Int64
	s.failed = func() { failed.Add(1) }
	const callers = 20
	var asking sync.WaitGroup
	for range callers {
		asking.Go(func() {
			if got := shown(s, caller(t, "", "X-Mood", "bad"), "moody", "not", "steady"); !slices.Equal(got, []string{"steady"}) {
				t.Errorf("while matchers fail are shown %v", got)
			}
		})
	}
	asking.Wait()
	if failed.Load() != 2*callers || logs.Len() != 2 {
		t.Errorf("%d failures were told of, and %d logged; want %d and 2", failed.Load(), logs.Len(), 2*callers)
	}
	if got := shown(s, caller(t, "", "X-Mood", "good"), "moody", "not", "steady"); !slices.Equal(got, []string{"moody"}) {
		t.Errorf("when they work again are shown %v", got)
	}
	if logs.FilterLevelExact(zapcore.InfoLevel).Len() != 2 {
		t.Errorf("the log says %v", logs.All())
	}
}
