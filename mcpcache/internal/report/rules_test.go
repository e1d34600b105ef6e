package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// The status of a handler with rules has them, what there is to be warned of, and the
// views that are in use.
func TestDescribeRules(t *testing.T) {
	source := reporttest.New(t, "ruled")
	if s := report.Describe(source, time.Now()); s.Rules != nil || s.Warnings != nil || s.Views != nil {
		t.Errorf("without rules the status has %+v, %q, %+v", s.Rules, s.Warnings, s.Views)
	}
	p := reporttest.NewPolicy(t, "allow tools a* b*", "admin: allow tools *", "deny prompts x", "other: deny tools a1")
	source.Ruled = p
	p.State[0].Unused = []string{"b*"}
	p.State[1].Failing, p.State[3].Failing = true, true
	s := report.Describe(source, time.Now())
	if len(s.Rules) != 4 || len(s.Views) != 0 {
		t.Errorf("rules are %+v, views %+v", s.Rules, s.Views)
	}
	if want := []string{
		"tools are restricted, and no rule is about resources, resource_templates: they are open to everybody",
		"rule 0 (allow tools a* b*) matches nothing of the lists with b*",
		"the matcher of rule 1 has failed for the last caller (allow tools *): whom it fails for does not get what it allows",
		"the matcher of rule 3 has failed for the last caller (deny tools a1): whom it fails for is kept from what it denies",
	}; !slices.Equal(s.Warnings, want) {
		t.Errorf("warnings are\n%s\nwant\n%s", strings.Join(s.Warnings, "\n"), strings.Join(want, "\n"))
	}
}

// Views are told apart by what they show.
func TestDescribeViews(t *testing.T) {
	source := reporttest.New(t, "viewed")
	p := reporttest.NewPolicy(t, "allow tools a*", "admin: allow tools b*", "also: allow tools b*", "deny prompts x")
	source.Ruled = p
	e := source.Pin(t, revision.V20260728, revision.Tools, 0, `{"name":"a1"}`, `{"name":"a2"}`, `{"name":"b"}`)
	prompts := source.Pin(t, revision.V20251125, revision.Prompts, 0, `{"name":"x"}`)
	for range 3 {
		source.Show(e, p.View())
	}
	source.Show(e, p.View("admin"))
	source.Show(e, p.View("also")) // is shown the same
	source.Show(prompts, p.View("admin"))
	source.Show(e, reporttest.NewPolicy(t, "deny tools a1").View()) // another handler's
	views := report.Describe(source, time.Now()).Views
	if len(views) != 2 {
		t.Fatalf("views are %+v", views)
	}
	said := func(v report.View) string {
		text := fmt.Sprint(v.Rules)
		for _, list := range v.Lists {
			text += fmt.Sprintf(" %s %s items %d hits %d", list.Kind, list.Revision, list.Items, list.Hits)
			if list.Bytes <= 0 {
				t.Errorf("%+v", list)
			}
		}
		return text
	}
	if got, want := said(views[0]), "[0 3] tools 2026-07-28 items 2 hits 3"; got != want {
		t.Errorf("the first view is %s, want %s", got, want)
	}
	if got, want := said(views[1]), "[0 1 3] prompts 2025-11-25 items 0 hits 1 tools 2026-07-28 items 3 hits 2"; got != want {
		t.Errorf("the second view is %s, want %s", got, want)
	}
	for _, v := range views {
		if len(v.Key) != 64 {
			t.Errorf("a view has the key %q", v.Key)
		}
	}
}
