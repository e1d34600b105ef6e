package toolkit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// bare returns a server without a prefix that has those tools.
func bare(name string, tools ...string) *member {
	return serves(name).with(func(m *member) { m.of.Prefix, m.Items[revision.Tools] = "", tools })
}

// The operator is told what clients are not given of the servers' lists, and why.
func TestConflictsAreTold(t *testing.T) {
	long := strings.Repeat("a", 65)
	for name, tt := range map[string]struct {
		members           []*member
		limit             int64
		server, item, why string // of the only conflict; "" for none
	}{
		"none": {members: []*member{serves("one"), serves("two")}, limit: 1 << 20},
		"a tool of both": {
			[]*member{bare("one", "a", "b"), bare("two", "b", "c")}, 1 << 20,
			"two", "b", "b: left out, as one has one of that name",
		},
		"a claimed name": {
			[]*member{bare("one", "two__a"), serves("two")}, 1 << 20,
			"one", "two__a", "two__a: left out, as names of two begin like that; give one of them another prefix",
		},
		"too long a name": {
			[]*member{bare("one", long)}, 1 << 20,
			"one", long, long + ": its name is longer than name_limit (64); clients may refuse it",
		},
		"too long a list": {
			[]*member{bare("one", "a"), bare("two", strings.Repeat("b", 400))}, 400,
			"two", "", "its list of tools is left out: with it, the joined one would be longer than max_list",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var want []Conflict
			for _, m := range tt.members {
				m.Items[revision.Prompts] = []string{m.of.Name}
				if m.of.Name == tt.server {
					want = []Conflict{{Kind: revision.Tools, Server: tt.server, Item: tt.item, Why: tt.why}}
				}
			}
			runWith(t, setup{settings: func(s *Settings) { s.Limits.List = tt.limit }}, func(w *world) {
				w.eachEra(func(c *caller) { c.list(revision.Tools) })
				if got := w.Conflicts(); !slices.Equal(got, want) {
					w.Errorf("the conflicts are %q, want %q", got, want)
				}
				lines := w.logs.FilterMessage("clients are not given all that the servers list, or not as it should be").All()
				if len(lines) != 2*len(want) { // one of each era
					w.Fatalf("the log has %d lines of conflicts, want %d", len(lines), 2*len(want))
				}
				for _, line := range lines {
					told := fmt.Sprint(line.ContextMap()["first"])
					if told != fmt.Sprintf("[%s: %s]", tt.server, tt.why) || line.Level != zap.WarnLevel {
						w.Errorf("the log has %s", told)
					}
				}
			}, tt.members...)
		})
	}
}

// The log has conflicts again only when others come of new lists, and it has the end of them. It names ten of many.
func TestConflictsAreLoggedOnce(t *testing.T) {
	names := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("t", i))
		}
		return all
	}
	one, two := bare("one", names(12)...), bare("two", "t0")
	run(t, func(w *world) {
		want := func(what string, conflicts ...int64) {
			w.Helper()
			w.after(time.Hour)
			w.calls(modern).list(revision.Tools)
			w.calls(modern).list(revision.Tools)
			var got []int64
			for _, line := range w.logs.TakeAll() {
				fields := line.ContextMap()
				if fields["kind"] != "tools" || fields["era"] != "modern" {
					continue
				}
				n, _ := fields["conflicts"].(int64) // 0 at the end
				first, _ := fields["first"].([]any)
				if over := line.Message == "nothing is left out of a list any more"; over != (n == 0) {
					w.Errorf("%s, the log has %q", what, line.Message)
				}
				if got = append(got, n); len(first) != min(int(n), 10) {
					w.Errorf("%s, the log names %d of %d", what, len(first), n)
				}
			}
			if !slices.Equal(got, conflicts) {
				w.Errorf("%s, the log has %v conflicts, want %v", what, got, conflicts)
			}
		}
		want("at the beginning", 1)
		w.changes(two, revision.Tools, "t0", "new")
		want("when the conflict stays")
		w.changes(two, revision.Tools, names(12)...)
		want("when there are more", 12)
		w.changes(two, revision.Tools, "new")
		want("when there are none", 0)
	}, one, two)
}
