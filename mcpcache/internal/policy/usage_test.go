package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestUsage(t *testing.T) {
	s := set(t, "allow tools search_* serach_*", "some deny tools *_drop", "allow tools hint:read_only hint:destructive",
		"allow resources docs://Public.Example/* docs://[a-c]x/* file:///etc/passwd git://*", "allow resource_templates docs://* x", "deny prompts search_*")
	u := s.Usage()
	if !u.Hints(revision.Tools) || u.Hints(revision.Prompts) {
		t.Error("rules about tools alone speak of hints")
	}
	unused := func() string {
		var all [][]int
		for rule := range s.Rules() {
			all = append(all, u.Unused(rule))
		}
		return fmt.Sprint(all)
	}
	if got, want := unused(), "[[0 1] [0] [0 1] [0 1 2 3] [0 1] [0]]"; got != want {
		t.Errorf("before anything is known, unused are %s, want %s", got, want)
	}
	u.Add(revision.Tools, Item{Name: "search_a", Hints: HintsOf([]byte(`{"annotations":{"readOnlyHint":true}}`))})
	u.Add(revision.Resources, Item{Name: "DOCS://public.example/a"})
	u.Add(revision.Resources, Item{Name: "git://a/../b"}) // is denied, whatever rules say
	u.Add(revision.ResourceTemplates, Item{Name: "docs://{x}"})
	if got, want := unused(), "[[1] [0] [1] [1 2 3] [1] [0]]"; got != want {
		t.Errorf("unused are %s, want %s", got, want)
	}
	u.AddTemplate("docs://{area}/{page}")
	if got, want := unused(), "[[1] [0] [1] [2 3] [1] [0]]"; got != want {
		t.Errorf("with a template, unused are %s, want %s", got, want)
	}
	u.AddTemplate("FILE:///etc/{name}")
	u.AddTemplate("gi{x}") // may become anything that begins like that
	if got, want := unused(), "[[1] [0] [1] [] [1] [0]]"; got != want {
		t.Errorf("with more templates, unused are %s, want %s", got, want)
	}
}

// A template whose beginning says something else makes nothing that a pattern names.
func TestTemplatesOfOthers(t *testing.T) {
	s := set(t, "allow resources docs://a/* docs://a/b")
	for template, want := range map[string]int{
		"docs://b/{x}": 2, "docs://a/b/{x}": 1, "docs://a/{x}": 0, "{x}": 0, "docs://a/b": 0,
	} {
		u := s.Usage()
		u.AddTemplate(template)
		if got := u.Unused(0); len(got) != want {
			t.Errorf("with %s, unused are %v, want %d", template, got, want)
		}
	}
}

func TestRulesOfAView(t *testing.T) {
	s := set(t, "allow tools a", "some deny resources b", "some allow resources c", "some allow prompts c", "deny tools x")
	for _, tt := range []struct {
		who  Matched
		want []int
	}{
		{matched(), []int{0, 4}}, {matched(2, 1), []int{0, 1, 2, 4}}, {matched(3), []int{0, 3, 4}},
	} {
		if got := s.View(tt.who).Rules(); !slices.Equal(got, tt.want) {
			t.Errorf("rules are %v, want %v", got, tt.want)
		}
	}
	if n := len(s.Views()); n != 3 {
		t.Errorf("%d views, want 3", n)
	}
}
