package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// explained is what a caller is shown, item by item.
func explained(t *testing.T, source *reporttest.Source, k revision.Kind, like string, why bool, as ...string) string {
	t.Helper()
	items, err := report.ItemsAs(t.Context(), source, k, like, as, why)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, item := range items {
		text := item.Name
		if w := item.Summary().Why; w != nil {
			text += fmt.Sprintf(" %v", w.Allowed)
			if w.Rule != nil {
				text += fmt.Sprintf(" %d %s %s", w.Rule.Number, w.Rule, w.Rule.Match)
			}
			text += " " + w.Reason
		}
		said = append(said, strings.TrimSpace(text))
	}
	return strings.Join(said, "\n")
}

func TestItemsAs(t *testing.T) {
	source := reporttest.New(t, "as")
	source.Pin(t, revision.V20260728, revision.Tools, 0, `{"name":"get"}`, `{"name":"ticket_new"}`, `{"name":"db_drop","annotations":{"readOnlyHint":true}}`, `{"name":"b\u0001"}`)
	source.Pin(t, revision.V20260728, revision.Prompts, 0, `{"name":"p"}`)
	source.Pin(t, revision.V20260728, revision.Resources, 0, `{"uri":"x:y"}`, `{"uri":"x:z"}`)
	if got := explained(t, source, revision.Prompts, "", true, "who=a"); got != "p true there are no rules" {
		t.Errorf("without rules: %s", got)
	}
	source.Ruled = reporttest.NewPolicy(t, "allow tools hint:read_only get", "support: allow tools ticket_*", "deny tools *_drop", "support: deny resources x:y", "support: deny tools get")
	for name, tt := range map[string]struct {
		kind revision.Kind
		like string
		why  bool
		as   []string
		want string
	}{
		"everybody":   {revision.Tools, "", false, nil, "get"},
		"support":     {revision.Tools, "", false, []string{"who=support"}, "ticket_new"},
		"like":        {revision.Tools, "*t", false, nil, "get"},
		"of support":  {revision.Tools, "ticket_new", true, []string{"who=support"}, `ticket_new true 1 allow tools ticket_* [{"name":"support"}]`},
		"open kind":   {revision.Prompts, "", true, nil, "p true no rule that is about this caller restricts prompts"},
		"one denied":  {revision.Resources, "", true, []string{"who=support"}, "x:y false 3 deny resources x:y [{\"name\":\"support\"}]\nx:z true no rule denies it, and resources are open"},
		"none denied": {revision.Resources, "", false, nil, "x:y\nx:z"},
		"everything": {
			revision.Tools, "", true, nil,
			"get true 0 allow tools hint:read_only get\nticket_new false no rule that is about this caller allows it\n" +
				"db_drop false 2 deny tools *_drop\nb\x01 false nothing certain can be said of its name",
		},
	} {
		if got := explained(t, source, tt.kind, tt.like, tt.why, tt.as...); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
	source.Ruled.Failing = []string{"support"}
	if got, want := explained(t, source, revision.Tools, "", true, "who=support"), "get false 4 deny tools get [{\"name\":\"support\"}] its matcher fails for this caller: it does\n"+
		"ticket_new false no rule that is about this caller allows it; the matcher of rule 1 fails for this caller\ndb_drop false 2"; !strings.HasPrefix(got, want) {
		t.Errorf("with a matcher that fails:\n%s\nwant\n%s", got, want)
	}
	for _, q := range []struct {
		kind revision.Kind
		like string
		as   string
		want report.Reason
	}{
		{revision.Tools, "", "what", report.Invalid}, {revision.Tools, "[", "who=a", report.Invalid}, {revision.ResourceTemplates, "", "who=a", report.NotFound},
	} {
		if _, err := report.ItemsAs(t.Context(), source, q.kind, q.like, []string{q.as}, false); reasonOf(t, err) != q.want {
			t.Errorf("%s, %s gave %v", q.like, q.as, err)
		}
	}
}
