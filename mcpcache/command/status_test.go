package command

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
)

func TestStatusForPeople(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var out strings.Builder
	other := report.Status{Name: "other", Upstream: "http://127.0.0.1:2/mcp"}
	if err := writeStatuses(&out, []report.Status{reporttest.Full(), other}, now); err != nil {
		t.Fatal(err)
	}
	const want = `full is degraded, in front of http://127.0.0.1:3001/mcp, http://127.0.0.1:3002/mcp

ERA     REVISION    STATE        SINCE       LISTENING  NEXT REFRESH  LAST FAILURE
legacy  2025-11-25  degraded     1h0m0s ago  yes        in 1m30s      tools, 1m0s ago: no answer within 30s[31m
modern  2026-07-28  not offered  0s ago      no         -             -

KIND      REVISION    ITEMS  BYTES    DIGEST        AGE   TTL LEFT              HITS
tools     2025-11-25  42     4.0 KiB  0a0a0a0a0a0a  1m1s  uncacheable: ttlMs 0  7
prompts   2025-11-25  1      10 B     f0f0f0f0f0f0  0s    stale for 3s          0
discover  2026-07-28  0      10 B     f0f0f0f0f0f0  0s    10s                   0

Shared store: web-1-ab is together, since 1m0s ago; members (2): web-1-ab, web-2-cd[31m; what failed last: out of memory[31m; stored lists of no use: 2

SPEAKS  SESSIONS  PROCESSES  STARTS  FAILED  STOPPED  DIED  SKIPPED  LAST EXIT
legacy  5         2          12      1       7        3     2        stopped 1m0s ago: exit status 0

PID  SERVES        STARTED     CALLS  MEMORY
11   a session     1h0m0s ago  2      66 MiB
12   all sessions  1s ago      0      -

program full did not start: no such file[31m, 1m0s ago; it is tried again in 20s at the earliest

The process that died last, 17, 2m0s ago, wrote to standard error:
  Error: no database
      at main[31m

VIEW          RULES  KIND     REVISION    ITEMS  BYTES    HITS
abababababab  0,1    tools    2025-11-25  7      2.0 KiB  12
abababababab  0,1    prompts  2025-11-25  0      900 B    1
cdcdcdcdcdcd  -      tools    2025-11-25  6      2.0 KiB  4

Warning: rule 0 (allow tools a* b*) matches nothing of the lists with b*[31m

other is not ready, in front of http://127.0.0.1:2/mcp

ERA  REVISION  STATE  SINCE  LISTENING  NEXT REFRESH  LAST FAILURE

KIND  REVISION  ITEMS  BYTES  DIGEST  AGE  TTL LEFT  HITS
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestStatusSaysWhatAFeedHears is about the column LISTENING: whether the server
// tells the feed of changes, and which lists have changed although it did not.
func TestStatusSaysWhatAFeedHears(t *testing.T) {
	for _, c := range []struct {
		listening bool
		silent    []string
		want      string
	}{
		{false, nil, "no"},
		{true, nil, "yes"},
		{true, []string{"tools"}, "yes, not told of tools"},
		{false, []string{"tools", "resource_templates"}, "no, not told of tools, resource_templates"},
	} {
		f := report.Feed{Era: "legacy", Revision: "2025-11-25", State: feed.Ready, Listening: c.listening, Silent: c.silent}
		status := report.Status{Name: "h", Ready: true, Upstream: "http://127.0.0.1:3001/mcp", Feeds: []report.Feed{f}}
		var out strings.Builder
		if err := writeStatuses(&out, []report.Status{status}, f.Since); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		from, to := strings.Index(lines[2], "LISTENING"), strings.Index(lines[2], "NEXT REFRESH")
		if from < 0 || to < from || len(lines[3]) < to {
			t.Fatalf("there is no such column:\n%s", &out)
		}
		if got := strings.TrimRight(lines[3][from:to], " "); got != c.want {
			t.Errorf("listening %t, silent %q: the table says %q, want %q", c.listening, c.silent, got, c.want)
		}
	}
}

// TestHeadline is about what is said of a handler as a whole: how its worst feed is. The
// exit code says the same.
func TestHeadline(t *testing.T) {
	for _, c := range []struct {
		ready  bool
		states []feed.State
		want   string
		code   int
	}{
		{false, nil, "is not ready", 4},
		{false, []feed.State{feed.Connecting, feed.Unsupported}, "is not ready", 4},
		{false, []feed.State{feed.Down, feed.Down}, "is not ready: it is down", 4},
		{false, []feed.State{feed.NeedsAuthorization, feed.Connecting}, "is not ready: it needs authorization", 4},
		{false, []feed.State{feed.Unsupported, feed.Unsupported}, "is not ready: it is offered no revision of MCP by its server", 4},
		{true, []feed.State{feed.Ready, feed.Unsupported}, "is ready", 0},
		{true, []feed.State{feed.Ready, feed.Hydrating}, "is ready", 0},
		{true, []feed.State{feed.Ready, feed.Degraded}, "is degraded", 5},
		{true, []feed.State{feed.Degraded, feed.NeedsAuthorization}, "needs authorization", 5},
		{true, []feed.State{feed.Ready, feed.NeedsAuthorization, feed.Degraded, feed.Down}, "is down", 5},
		{true, []feed.State{feed.Down, feed.Down}, "is down", 5},
		{true, []feed.State{feed.Unsupported, feed.Unsupported}, "is offered no revision of MCP by its server", 5},
	} {
		status := report.Status{Name: "h", Ready: c.ready, Upstream: "http://127.0.0.1:3001/mcp"}
		for _, state := range c.states {
			status.Feeds = append(status.Feeds, report.Feed{State: state})
		}
		var out strings.Builder
		if err := writeStatuses(&out, []report.Status{status}, time.Now()); err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(out.String(), "\n")
		if want := "h " + c.want + ", in front of http://127.0.0.1:3001/mcp"; line != want {
			t.Errorf("with feeds %q the headline is %q, want %q", c.states, line, want)
		}
		code, err := exitCode([]report.Status{status})
		if code != c.code || code != 0 && err.Error() != "handler h "+c.want {
			t.Errorf("with feeds %q the exit code is %d, %v; want %d", c.states, code, err, c.code)
		}
	}
}

// TestTTLLeft is about the column TTL LEFT: whole seconds, as Cache-Status has them.
func TestTTLLeft(t *testing.T) {
	for seconds, want := range map[float64]string{
		59.9: "59s", 0.4: "0s", 0: "stale", -0.4: "stale for 1s", -61: "stale for 1m1s",
	} {
		rows := kindRows(report.Status{Kinds: []report.Snapshot{{Kind: "tools", Revision: "2025-11-25", TTL: seconds}}})
		if got := rows[1][6]; rows[0][6] != "TTL LEFT" || got != want {
			t.Errorf("%v seconds are shown as %q, want %q", seconds, got, want)
		}
	}
}

// TestFailureOfAServerWithoutMCP: that a revision is not offered is no failure, but why
// none is has to be said.
func TestFailureOfAServerWithoutMCP(t *testing.T) {
	now := time.Now()
	f := report.Feed{Revision: "2025-11-25", State: feed.Unsupported, Failure: &report.Failure{Stage: "connect", Message: "answered 404", At: now}}
	other := report.Feed{Revision: "2026-07-28", State: feed.Ready}
	for _, c := range []struct {
		feeds []report.Feed
		want  string
	}{
		{[]report.Feed{f, other}, "-"},
		{[]report.Feed{f, f}, "connect, 0s ago: answered 404"},
	} {
		if row := feedRows(c.feeds, now)[1]; row[2] != "not offered" || row[6] != c.want {
			t.Errorf("the row is %q, want the failure %q", row, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	in := func(ready bool, states ...feed.State) report.Status {
		s := report.Status{Name: "h", Ready: ready}
		for _, state := range states {
			s.Feeds = append(s.Feeds, report.Feed{Revision: "2025-11-25", State: state})
		}
		return s
	}
	for name, c := range map[string]struct {
		statuses []report.Status
		want     int
	}{
		"none":                {nil, 4},
		"ready":               {[]report.Status{in(true, feed.Ready, feed.Unsupported)}, 0},
		"again connecting":    {[]report.Status{in(true, feed.Connecting, feed.Hydrating)}, 0},
		"not ready":           {[]report.Status{in(true, feed.Ready), in(false, feed.Hydrating)}, 4},
		"down, never ready":   {[]report.Status{in(false, feed.Down)}, 4},
		"one of them failing": {[]report.Status{in(true, feed.Ready, feed.Degraded), in(false)}, 4},
		"degraded":            {[]report.Status{in(true, feed.Ready, feed.Degraded)}, 5},
		"down":                {[]report.Status{in(true, feed.Ready), in(true, feed.Down)}, 5},
		"needs authorization": {[]report.Status{in(true, feed.NeedsAuthorization)}, 5},
		"no revision offered": {[]report.Status{in(true, feed.Unsupported, feed.Unsupported)}, 5},
	} {
		if code, err := exitCode(c.statuses); code != c.want || (err == nil) != (code == 0) {
			t.Errorf("%s: exit code %d, %v; want %d", name, code, err, c.want)
		}
	}
}

func TestProgress(t *testing.T) {
	down := report.Feed{Revision: "2025-11-25", State: feed.Down, Failure: &report.Failure{
		Stage: "connect", Message: strings.Repeat("long ", 20),
	}}
	list := func(kind, revision string, items int) report.Snapshot {
		return report.Snapshot{Kind: kind, Revision: revision, Items: items}
	}
	for _, c := range []struct {
		status report.Status
		want   string
		done   bool
	}{
		{report.Status{}, "Feeds: starting", false},
		{report.Status{Ready: true}, "Feeds: starting", false},
		{report.Status{Feeds: []report.Feed{down}}, "Feeds: 2025-11-25 down (connect: " + strings.Repeat("long ", 20)[:59] + "…)", false},
		{
			report.Status{Feeds: []report.Feed{{Revision: "2025-11-25", State: feed.Hydrating}}, Kinds: []report.Snapshot{list("tools", "2025-11-25", 3)}},
			"Feeds: 2025-11-25 hydrating, tools 3", false,
		},
		{
			report.Status{Ready: true, Feeds: []report.Feed{
				{Revision: "2025-11-25", State: feed.Ready}, {Revision: "2026-07-28", State: feed.Connecting},
			}},
			"Feeds: 2025-11-25 ready, 2026-07-28 connecting", false,
		},
		{
			report.Status{
				Ready: true,
				Feeds: []report.Feed{
					{Revision: "2025-11-25", State: feed.Unsupported, Failure: &report.Failure{Message: "not shown"}},
					{Revision: "2026-07-28", State: feed.Ready},
				},
				Kinds: []report.Snapshot{
					list("resource_templates", "2026-07-28", 0), list("tools", "2025-11-25", 4),
					list("tools", "2026-07-28", 5), list("discover", "2026-07-28", 0),
				},
			},
			"Feeds: 2025-11-25 not offered, 2026-07-28 ready, tools 5, resource_templates 0", true,
		},
	} {
		if text, done := progress([]report.Status{c.status}); text != c.want || done != c.done {
			t.Errorf("progress is %q, %v; want %q, %v", text, done, c.want, c.done)
		}
	}
	if _, done := progress(nil); done {
		t.Error("without handlers, all is done")
	}
}
