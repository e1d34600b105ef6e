package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const modern = revision.V20260728

// listOf returns a server's list of those raw items.
func listOf(t *testing.T, k revision.Kind, partition cache.Partition, items ...string) *cache.Entry {
	t.Helper()
	page, err := message.ParsePage(fmt.Appendf(nil, `{"%s":[%s],"ttlMs":1}`, k.ItemsKey(), strings.Join(items, ",")), k)
	if err != nil {
		t.Fatal(err)
	}
	return &cache.Entry{Kind: k, Revision: modern, Partition: partition, Body: message.Single(k, page), Fetched: time.Now(), Lifetime: time.Hour}
}

func newJoined(t *testing.T, maxList int64, prefixes ...string) (*Joined, *cache.Cache) {
	t.Helper()
	own, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	servers := make([]Joining, len(prefixes))
	for i, prefix := range prefixes {
		servers[i] = Joining{Name: fmt.Sprint("server", i), Prefix: prefix}
	}
	return NewJoined(servers, About{Name: "all", Version: "1"}, Limits{List: maxList, Name: 20}, own, nil), own
}

func namesOf(l *List) string { return strings.Join(l.Entry.Body.Names(), " ") }

// What is joined is pinned, and is the same as long as its parts are.
func TestJoin(t *testing.T) {
	j, own := newJoined(t, 1<<20, "a_", "", "c_")
	parts := []*cache.Entry{
		listOf(t, revision.Tools, cache.Public, `{"name":"x"}`, `{"name":"y"}`), nil, listOf(t, revision.Tools, cache.Public, `{"name":"x"}`),
	}
	first := j.Join(modern, revision.Tools, parts)
	if got := namesOf(first); got != "a_x a_y c_x" {
		t.Fatalf("joined %s", got)
	}
	if own.Pinned(modern, revision.Tools) != first.Entry || j.Join(modern, revision.Tools, parts) != first || j.Last(modern, revision.Tools) != first {
		t.Error("the list is not pinned, or made anew")
	}
	if target, ok := first.Target("c_x"); !ok || target != (Target{2, "x"}) {
		t.Errorf("c_x is %+v, %v", target, ok)
	}
	if _, ok := first.Target("x"); ok {
		t.Error("a name without its prefix stands for something")
	}
	// The same bytes, fetched again.
	again := slices.Clone(parts)
	again[2] = listOf(t, revision.Tools, cache.Public, `{"name":"x"}`)
	if second := j.Join(modern, revision.Tools, again); second.Entry != first.Entry || second.Parts[2] != again[2] {
		t.Error("a refresh that has changed nothing makes another list")
	}
	// A server more, whose items are called like another's, now or later.
	again[1] = listOf(t, revision.Tools, cache.Public, `{"name":"a_x","v":2}`, `{"name":"c_later"}`, `{"name":"z"}`)
	third := j.Join(modern, revision.Tools, again)
	if target, _ := third.Target("a_x"); namesOf(third) != "a_x a_y z c_x" || target.Server != 0 {
		t.Errorf("joined %s, and a_x is of server %d", namesOf(third), target.Server)
	}
	if want := []Conflict{{Server: 1, Name: "a_x", Why: Claimed, With: 0}, {Server: 1, Name: "c_later", Why: Claimed, With: 2}}; !slices.Equal(third.Conflicts, want) {
		t.Errorf("conflicts are %+v, want %+v", third.Conflicts, want)
	}
	if scope := third.Entry.Body.Scope; scope != message.ScopePublic {
		t.Errorf("the scope is %s", scope)
	}
	again[1] = listOf(t, revision.Tools, cache.Anonymous, `{"name":"z"}`)
	if l := j.Join(modern, revision.Tools, again); l.Entry.Body.Scope != message.ScopePrivate || !strings.Contains(string(l.Entry.Body.Bytes), `"cacheScope":"private"`) {
		t.Errorf("with a private part the list is %s", l.Entry.Body.Bytes)
	}
	if l := j.Join(modern, revision.Tools, make([]*cache.Entry, 3)); l.Entry.Body.Items != 0 || !strings.HasPrefix(string(l.Entry.Body.Bytes), `"tools":[]`) {
		t.Errorf("nothing joined is %s", l.Entry.Body.Bytes)
	}
}

// A name that a prefix makes too long is shortened, always to the same; one that is too long
// by itself is not. Both can be called.
func TestLongNames(t *testing.T) {
	j, _ := newJoined(t, 1<<20, "prefix_", "prefiy_")
	fits, long, same, tooLong := strings.Repeat("f", 13), strings.Repeat("l", 14), strings.Repeat("l", 13)+"é", strings.Repeat("t", 21)
	parts := []*cache.Entry{
		listOf(t, revision.Tools, cache.Public, `{"name":"`+fits+`"}`, `{"x":1, "name": "`+long+`"}`, `{"name":"`+same+`"}`, `{"name":"`+tooLong+`"}`),
		listOf(t, revision.Tools, cache.Public, `{"name":"`+long+`"}`),
	}
	l := j.Join(modern, revision.Tools, parts)
	names := l.Entry.Body.Names()
	if len(names) != 5 || names[0] != "prefix_"+fits || names[3] != "prefix_"+tooLong {
		t.Fatalf("joined %q", names)
	}
	for i, want := range map[int]Target{1: {0, long}, 2: {0, same}, 4: {1, long}} {
		if target, ok := l.Target(names[i]); !ok || target != want || len(names[i]) != 20 || !strings.HasPrefix(names[i], "prefi") {
			t.Errorf("%s is %+v, %v; want %+v", names[i], target, ok, want)
		}
	}
	if !strings.Contains(string(l.Entry.Body.Bytes), `{"x":1, "name": "`+names[1]+`"}`) {
		t.Errorf("the list is %s", l.Entry.Body.Bytes)
	}
	if again := j.Join(modern, revision.Tools, []*cache.Entry{nil, parts[1]}).Entry.Body.Names(); again[0] != names[4] {
		t.Errorf("by itself, %s is %s", names[4], again[0])
	}
	if want := []Conflict{{Server: 0, Name: tooLong, Why: TooLong}}; !slices.Equal(l.Conflicts, want) {
		t.Errorf("conflicts are %+v", l.Conflicts)
	}
}

// A list that would be too long is left out, and those behind it that fit are not.
func TestJoinedListIsBounded(t *testing.T) {
	j, _ := newJoined(t, 1000, "a_", "b_", "c_")
	long := `{"name":"x","d":"` + strings.Repeat("x", 900) + `"}`
	l := j.Join(modern, revision.Tools, []*cache.Entry{
		listOf(t, revision.Tools, cache.Public, `{"name":"x"}`), listOf(t, revision.Tools, cache.Public, long), listOf(t, revision.Tools, cache.Public, `{"name":"x"}`),
	})
	if got := namesOf(l); got != "a_x c_x" || l.Entry.Size() > 1000 {
		t.Errorf("joined %s, %d bytes", got, l.Entry.Size())
	}
	if want := []Conflict{{Server: 1, Why: TooMuch}}; !slices.Equal(l.Conflicts, want) {
		t.Errorf("conflicts are %+v", l.Conflicts)
	}
}

func TestOwner(t *testing.T) {
	endless := strings.Repeat("x", policy.MaxName)
	j, _ := newJoined(t, 1<<20, "a_", "b_", "c_")
	resources := j.Join(modern, revision.Resources, []*cache.Entry{
		listOf(t, revision.Resources, cache.Public, `{"uri":"x://1","name":"n"}`), listOf(t, revision.Resources, cache.Public, `{"uri":"x://1","name":"n"}`, `{"uri":"x://2","name":"n"}`), nil,
	})
	templates := j.Join(modern, revision.ResourceTemplates, []*cache.Entry{
		nil, listOf(t, revision.ResourceTemplates, cache.Public, `{"uriTemplate":"{bad","name":"n"}`, `{"uriTemplate":"z://`+endless+`","name":"n"}`, `{"uriTemplate":"x://{a}/{b}","name":"n"}`),
		listOf(t, revision.ResourceTemplates, cache.Public, `{"uriTemplate":"y://{+a}","name":"n"}`, `{"uriTemplate":"x://{a}/{b}","name":"n"}`),
	})
	for uri, want := range map[string]int{"x://1": 0, "x://2": 1, "x://3/4": 1, "y://a/b/c": 2, "x://3": -1, "": -1, "z://" + endless: -1} {
		if got, ok := Owner(t.Context(), uri, resources, templates); ok != (want >= 0) || ok && got != want {
			t.Errorf("%s is of %d, %v; want %d", uri, got, ok, want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got, ok := Owner(ended, "x://3/4", resources, templates); ok {
		t.Errorf("a client that has gone is told that its URI is of %d", got)
	}
	none := j.Join(modern, revision.ResourceTemplates, make([]*cache.Entry, 3))
	only := j.Join(modern, revision.Resources, []*cache.Entry{nil, listOf(t, revision.Resources, cache.Public), nil})
	if got, ok := OnlyOwner(only, none); !ok || got != 1 {
		t.Errorf("of one server that has resources, URIs are of %d, %v", got, ok)
	}
	if _, ok := OnlyOwner(resources, templates); ok {
		t.Error("of three servers with resources one is the only one")
	}
}

func TestInstructions(t *testing.T) {
	j, _ := newJoined(t, 1<<20, "a_", "b_", "c_")
	says := func(text string) *cache.Entry {
		page, err := message.ParsePage([]byte(`{"supportedVersions":["2026-07-28"],"instructions":"`+text+`"}`), revision.Discover)
		if err != nil {
			t.Fatal(err)
		}
		return &cache.Entry{Kind: revision.Discover, Revision: modern, Partition: cache.Public, Body: message.Single(revision.Discover, page)}
	}
	long := strings.Repeat("é", maxInstructions)
	l := j.Join(modern, revision.Discover, []*cache.Entry{says(`One.\n`), says(""), says(long)})
	got := message.StringAt(resultOf(l.Entry), "instructions")
	begin, rest, _ := strings.Cut(got, "\n\n# server2\n\n")
	if begin != "# server0\n\nOne." || len(rest) > maxInstructions || !strings.HasPrefix(long, strings.TrimSuffix(rest, "…")) {
		t.Errorf("the instructions are %.200s, the last %d bytes", got, len(rest))
	}
	if l := j.Join(modern, revision.Discover, make([]*cache.Entry, 3)); strings.Contains(string(l.Entry.Body.Bytes), "instructions") {
		t.Errorf("without any, discover is %s", l.Entry.Body.Bytes)
	}
}
