package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain text":               "plain text",
		"two\nlines\tand\rmore":    "two lines and more",
		"\x1b[2J\x1b]0;title\x07x": "[2J]0;titlex",
		"c1 \u009b31m":             "c1 31m",
		"bidi \u202e\u2066":        "bidi ",
		"bad \xff utf-8":           "bad � utf-8",
		"täg 日本 😀":                 "täg 日本 😀",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"", 3, ""},
	} {
		if got := shorten(c.text, c.limit); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.text, got, c.want)
		}
	}
}

func TestItemsForPeople(t *testing.T) {
	var out strings.Builder
	err := writeTable(&out, itemRows([]report.Summary{
		{Name: "a", Title: "A\x1b[1m", Description: "first\nline " + strings.Repeat("x", shownDescription)},
		{Name: "long_name"},
	}))
	want := "NAME       TITLE  DESCRIPTION\n" +
		"a          A[1m   first line " + strings.Repeat("x", shownDescription-12) + "…\n" +
		"long_name\n"
	if err != nil || out.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), want)
	}
}

func TestWhyForPeople(t *testing.T) {
	rule := &report.Rule{Number: 3, Effect: "deny", Kind: "tools", Items: []string{"*_drop", "x\x1b[1m"}}
	about := &report.Rule{Number: 0, Effect: "allow", Kind: "tools", Items: []string{"*"}, Match: json.RawMessage(`[{"header":{"X-Team":["a"]}}]`)}
	var out strings.Builder
	err := writeTable(&out, whyRows([]report.Summary{
		{Name: "get", Why: &report.Why{Allowed: true, Rule: about}},
		{Name: "db_drop", Why: &report.Why{Rule: rule}},
		{Name: "fails", Why: &report.Why{Rule: rule, Reason: "its matcher fails"}},
		{Name: "other", Why: &report.Why{Reason: "no rule allows it"}},
	}))
	const want = `NAME     ACCESS   RULE                       WHO
get      allowed  0: allow tools *           [{"header":{"X-Team":["a"]}}]
db_drop  hidden   3: deny tools *_drop x[1m  everybody
fails    hidden   3: deny tools *_drop x[1m  everybody: its matcher fails
other    hidden   no rule allows it
`
	if err != nil || out.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), want)
	}
}

func TestListingQuery(t *testing.T) {
	for want, q := range map[string]listing{
		"": {}, "as=a%3Db%26c&as=d%3D&why=1": {as: []string{"a=b&c", "d="}, why: true}, "like=%2A": {like: "*"},
	} {
		if got := q.query(); got != want {
			t.Errorf("%+v is asked as %s, want %s", q, got, want)
		}
	}
}

func TestIndentedKeepsNumbersAndOrder(t *testing.T) {
	got, err := indented([]byte(`{"z":1.0e2,"a":[9007199254740993],"e":"` + "\u009b" + `31m"}`))
	const want = "{\n  \"z\": 1.0e2,\n  \"a\": [\n    9007199254740993\n  ],\n  \"e\": \"31m\"\n}"
	if err != nil || string(got) != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
	if _, err := indented([]byte("{")); err == nil {
		t.Error("half an item gives no error")
	}
}

func TestRefreshedForPeople(t *testing.T) {
	var out strings.Builder
	err := writeRefreshed(&out, []report.Refreshed{
		{Kind: "tools", Revision: "2025-11-25", Items: 3, Added: []string{"n\new"}, Removed: []string{"old"}, Changed: []string{"a", "b"}, More: 7},
		{Kind: "prompts", Revision: "2025-11-25", Error: "calling prompts/list: no answer"},
	})
	const want = `KIND     REVISION    ITEMS  ADDED  REMOVED  CHANGED  FAILURE
tools    2025-11-25  3      1      1        2
prompts  2025-11-25  -      -      -        -        calling prompts/list: no answer
+ 2025-11-25 tools: n ew
- 2025-11-25 tools: old
~ 2025-11-25 tools: a
~ 2025-11-25 tools: b
… 2025-11-25 tools: 7 more
`
	if err != nil || out.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), want)
	}
}

func TestKindsAreCompleted(t *testing.T) {
	got, directive := completeKinds(nil, nil, "")
	if strings.Join(got, " ") != "tools prompts resources resource_templates" || directive != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("got %q, %v", got, directive)
	}
	if got, _ := completeKinds(nil, []string{"tools"}, ""); len(got) != 0 {
		t.Errorf("after a kind comes %q", got)
	}
}
