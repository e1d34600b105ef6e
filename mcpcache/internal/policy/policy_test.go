package policy

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// rule reads a rule as it is written: "allow tools a* b*", or "some allow tools a*" if it
// does not apply to everybody.
func rule(t *testing.T, text string) Rule {
	t.Helper()
	r := Rule{Everybody: !strings.HasPrefix(text, "some ")}
	words := strings.Fields(strings.TrimPrefix(text, "some "))
	if words[0] == "deny" {
		r.Effect = Deny
	}
	var ok bool
	if r.Kind, ok = revision.ParseKind(words[1]); !ok {
		t.Fatalf("%q: no such kind", text)
	}
	for _, word := range words[2:] {
		p, err := ParsePattern(r.Kind, word)
		if err != nil {
			t.Fatal(err)
		}
		r.Items = append(r.Items, p)
	}
	return r
}

func set(t *testing.T, texts ...string) *Set {
	t.Helper()
	rules := make([]Rule, len(texts))
	for i, text := range texts {
		rules[i] = rule(t, text)
	}
	return NewSet(rules, true)
}

// view is what callers see to whom no rules apply but those for everybody.
func view(t *testing.T, texts ...string) *View {
	t.Helper()
	return set(t, texts...).View(Matched{})
}

// matched has those rules.
func matched(numbers ...int) (m Matched) {
	for _, n := range numbers {
		m.Add(n)
	}
	return m
}

func TestDecide(t *testing.T) {
	v := view(t, "allow tools search_* get_?", "allow tools ticket_*", "deny tools *_drop", "deny tools get_y",
		"allow tools hint:read_only", "deny prompts secret", "allow resources docs://Public.Example/a/*", "deny resources file:*")
	readOnly := HintsOf([]byte(`{"annotations":{"readOnlyHint":true}}`))
	for _, tt := range []struct {
		kind revision.Kind
		item Item
		want Decision
	}{
		{revision.Tools, Item{Name: "search_a"}, Decision{true, 0}},
		{revision.Tools, Item{Name: "get_x"}, Decision{true, 0}},
		{revision.Tools, Item{Name: "get_y"}, Decision{false, 3}},
		{revision.Tools, Item{Name: "get_xy"}, Decision{false, -1}},
		{revision.Tools, Item{Name: "Search_a"}, Decision{false, -1}},
		{revision.Tools, Item{Name: "search_drop"}, Decision{false, 2}},
		{revision.Tools, Item{Name: "ticket_a"}, Decision{true, 1}},
		{revision.Tools, Item{Name: "ticket_drop"}, Decision{false, 2}},
		{revision.Tools, Item{Name: "other"}, Decision{false, -1}},
		{revision.Tools, Item{Name: "other", Hints: readOnly}, Decision{true, 4}},
		{revision.Tools, Item{Name: "a_drop", Hints: readOnly}, Decision{false, 2}},
		{revision.Tools, Item{Name: "search_\n"}, Decision{false, -1}},
		{revision.Tools, Item{Name: "search_\xff"}, Decision{false, -1}},
		{revision.Tools, Item{}, Decision{false, -1}},
		{revision.Prompts, Item{Name: "other"}, Decision{true, -1}},
		{revision.Prompts, Item{Name: "secret"}, Decision{false, 5}},
		{revision.Resources, Item{Name: "DOCS://public.example/a/b/c"}, Decision{true, 6}},
		{revision.Reads, Item{Name: "docs://public.example/a/b"}, Decision{true, 6}},
		{revision.Reads, Item{Name: "docs://public.example/A/b"}, Decision{false, -1}},
		{revision.Resources, Item{Name: "docs://public.example/a/../b"}, Decision{false, -1}},
		{revision.Resources, Item{Name: "docs://public.example/a/%2E%2e/b"}, Decision{false, -1}},
		{revision.Resources, Item{Name: `docs://public.example/a/..\b`}, Decision{false, -1}},
		{revision.Resources, Item{Name: "FILE:///etc"}, Decision{false, 7}},
		{revision.ResourceTemplates, Item{Name: "file:///{x}/.."}, Decision{true, -1}},
	} {
		if got := v.Decide(tt.kind, tt.item); got != tt.want {
			t.Errorf("%s %+v: %v, want %v", tt.kind, tt.item, got, tt.want)
		}
	}
}

// TestShows looks at items as they are in lists.
func TestShows(t *testing.T) {
	v := view(t, "deny tools *_drop hint:open_world", "allow resources docs://a/*", "deny resources docs://a/secret")
	for _, tt := range []struct {
		kind revision.Kind
		item string
		want bool
	}{
		{revision.Tools, `{"name":"get","annotations":{"openWorldHint":false}}`, true},
		{revision.Tools, `{"annotations":{"openWorldHint":false},"name":"get"}`, true},
		{revision.Tools, `{"name":"get"}`, false},
		{revision.Tools, `{"name":"x_drop","annotations":{"openWorldHint":false}}`, false},
		{revision.Tools, `{"name":"x_\u0064rop","annotations":{"openWorldHint":false}}`, false},
		{revision.Tools, `{"name":"get","annotations":{"openWorldHint":false},"Name":"x"}`, false},
		{revision.Resources, `{"uri":"docs://a/b","name":"x"}`, true},
		{revision.Resources, `{"uri":"docs://a/secret","name":"x"}`, false},
		{revision.Resources, `{"name":"docs://a/b"}`, false},
		{revision.Resources, `{"uri":""}`, false},
		{revision.Resources, `{"uri":1}`, false},
		{revision.Resources, `"docs://a/b"`, false},
		{revision.Prompts, `{"title":"without a name"}`, true},
		{revision.ResourceTemplates, `{"uriTemplate":"docs://a/{x}/.."}`, true},
	} {
		if got := v.Shows(tt.kind, []byte(tt.item)); got != tt.want {
			t.Errorf("%s %s: %v, want %v", tt.kind, tt.item, got, tt.want)
		}
	}
	if view(t, "deny resources x:y").Shows(revision.Resources, []byte(`{"uri":""}`)) {
		t.Error("what has no name is shown where something is denied")
	}
}

func TestWhatAViewRestricts(t *testing.T) {
	v := view(t, "allow tools a*", "deny prompts b", "allow resources hint*")
	for kind, want := range map[revision.Kind]bool{
		revision.Tools: true, revision.Prompts: true, revision.Resources: true, revision.Reads: true,
		revision.ResourceTemplates: false, revision.Discover: false,
	} {
		if v.Restricts(kind) != want {
			t.Errorf("%s: restricts is %v", kind, !want)
		}
	}
	if !v.RestrictsAny() || v.NeedsHints(revision.Tools) || !view(t, "deny tools a hint:open_world").NeedsHints(revision.Tools) {
		t.Error("it is not known what is restricted, or whether hints are needed")
	}
}

// Without rules nothing is restricted.
func TestNoRules(t *testing.T) {
	var v *View
	if v.Restricts(revision.Tools) || v.RestrictsAny() || v.Personal(revision.Tools) || v.NeedsHints(revision.Tools) ||
		!v.Decide(revision.Reads, Item{Name: "a:/.."}).Allowed || !v.Shows(revision.Tools, []byte(`{}`)) {
		t.Error("it restricts something")
	}
}

// Views that show the same have the same key, in whatever order their rules are.
func TestKeys(t *testing.T) {
	keys := make(map[[32]byte]string)
	for name, views := range map[string][]*View{
		"a or b":          {view(t, "allow tools a b"), view(t, "allow tools b", "allow tools a"), view(t, "allow tools b a a")},
		"a":               {view(t, "allow tools a")},
		"but a":           {view(t, "deny tools a")},
		"a, but b":        {view(t, "allow tools a", "deny tools b"), view(t, "deny tools b", "allow tools a")},
		"prompt a":        {view(t, "allow prompts a")},
		"read-only":       {view(t, "allow tools hint:read_only")},
		"one name, a, b":  {view(t, `allow tools a\,b`)},
		"of folded hosts": {view(t, "allow resources A://B/c"), view(t, "allow resources a://b/c")},
		"all is hidden":   {NewSet([]Rule{{Kind: revision.Tools, Everybody: true}}, true).View(Matched{})},
		"nothing is":      {NewSet(nil, true).View(Matched{})},
		"a, for some":     {set(t, "some allow tools a", "some allow tools b").View(matched(0)), set(t, "some allow tools a").View(matched(0))},
		"none, for some":  {set(t, "some allow tools a").View(matched()), set(t, "some allow tools b").View(matched())},
	} {
		for i, v := range views {
			if v.Key() != views[0].Key() {
				t.Errorf("%s: the key of number %d is another", name, i)
			}
		}
		if other, ok := keys[views[0].Key()]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		keys[views[0].Key()] = name
	}
}

// A rule counts for those to whom it applies; to others it may close a kind, and says that
// what they see is theirs.
func TestRulesForSome(t *testing.T) {
	s := set(t, "allow tools a", "some allow tools b", "some deny tools a", "some deny prompts p", "some allow resources x:*")
	for _, tt := range []struct {
		of   Matched
		want string
	}{
		{matched(), "a"}, {matched(1), "a b"}, {matched(2), ""}, {matched(1, 2, 3, 4), "b"}, {matched(1, 255), "a b"},
	} {
		var got []string
		for _, name := range []string{"a", "b", "c"} {
			if s.View(tt.of).Decide(revision.Tools, Item{Name: name}).Allowed {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v: shown are %v, want %s", tt.of, got, tt.want)
		}
	}
	v := s.View(matched())
	for kind, want := range map[revision.Kind][2]bool{
		revision.Tools: {true, true}, revision.Prompts: {false, true}, revision.Resources: {true, true}, revision.Reads: {true, true},
		revision.ResourceTemplates: {}, revision.Discover: {},
	} {
		if got := [2]bool{v.Restricts(kind), v.Personal(kind)}; got != want {
			t.Errorf("%s: restricts and is personal: %v, want %v", kind, got, want)
		}
	}
	if view(t, "some deny tools a").RestrictsAny() || view(t, "deny tools a").Personal(revision.Tools) {
		t.Error("a rule for others restricts, or one for everybody is personal")
	}
}

func TestViewsAreRemembered(t *testing.T) {
	rules := make([]string, 64)
	for i := range rules {
		rules[i] = fmt.Sprintf("some allow tools t%d", i)
	}
	s := set(t, rules...)
	if first, again := s.View(matched(1)), s.View(matched(1)); first != again {
		t.Error("a view is made anew")
	}
	for i := range 3 * maxViews {
		s.View(Matched{uint64(i)})
		if len(s.views) > maxViews {
			t.Fatalf("%d views are remembered, more than %d", len(s.views), maxViews)
		}
	}
}

// TestOpen finds the kinds that may have been forgotten.
func TestOpen(t *testing.T) {
	for texts, want := range map[string][]revision.Kind{
		"":                               nil,
		"deny prompts a":                 nil,
		"allow tools a":                  {revision.Prompts, revision.Resources, revision.ResourceTemplates},
		"deny tools a;allow resources a": {revision.Prompts, revision.ResourceTemplates},
		"allow tools a;deny prompts a;allow resources a": nil,
	} {
		var rules []Rule
		for text := range strings.SplitSeq(texts, ";") {
			if text != "" {
				rules = append(rules, rule(t, text))
			}
		}
		if got := NewSet(rules, true).Open(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", texts, got, want)
		}
	}
}

// FuzzDecide: what a URI is spelled like decides nothing that another spelling of it
// would not.
func FuzzDecide(f *testing.F) {
	f.Add("docs://public/a", "docs://public/*")
	f.Add("docs://public/../a", "docs://public/*")
	f.Add("DOCS://Public/%2e%2e/a", "docs://public/*")
	f.Fuzz(func(t *testing.T, uri, pattern string) {
		p, err := ParsePattern(revision.Resources, pattern)
		if err != nil {
			return
		}
		allow := NewSet([]Rule{{Effect: Allow, Kind: revision.Resources, Items: []Pattern{p}, Everybody: true}}, true).View(Matched{})
		deny := NewSet([]Rule{{Effect: Deny, Kind: revision.Resources, Items: []Pattern{p}, Everybody: true}}, true).View(Matched{})
		for i, c := range []byte(uri[:min(len(uri), 40)]) {
			if c|0x20 < 'a' || 'z' < c|0x20 || strings.Contains(uri[:i], "%") {
				continue
			}
			other := fmt.Sprintf("%s%%%02x%s", uri[:i], c, uri[i+1:])
			for _, v := range []*View{allow, deny} {
				if one, two := v.Decide(revision.Resources, Item{Name: uri}).Allowed, v.Decide(revision.Resources, Item{Name: other}).Allowed; one != two {
					t.Errorf("of %q: %v, of %q: %v", uri, one, other, two)
				}
			}
		}
		if !allow.Decide(revision.Resources, Item{Name: uri}).Allowed {
			return
		}
		for _, hidden := range []string{"/../", "/./", "/..;", `\`} {
			if strings.Contains(uri, hidden) {
				t.Errorf("%q is allowed by %q", uri, pattern)
			}
		}
		for _, hidden := range []string{"%2e", "%2F", "%5c", "\x00"} {
			path, _, _ := strings.Cut(uri, "?")
			if path, _, _ = strings.Cut(path, "#"); strings.Contains(path, hidden) {
				t.Errorf("%q is allowed by %q", uri, pattern)
			}
		}
		if deny.Decide(revision.Resources, Item{Name: uri}).Allowed {
			t.Errorf("%q is allowed by %q, and not denied by it", uri, pattern)
		}
		if meant, err := url.PathUnescape(uri); err == nil && !strings.Contains(pattern, "%") && !allow.Decide(revision.Resources, Item{Name: meant}).Allowed {
			t.Errorf("%q is allowed by %q, and %q is not", uri, pattern, meant)
		}
	})
}
