package reporttest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/program"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

// Full has every member that there is.
func Full() report.Status {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	next := at.Add(90 * time.Second)
	return report.Status{
		Name: "full", Upstream: "http://127.0.0.1:3001/mcp", Ready: true,
		Upstreams: []string{"http://127.0.0.1:3001/mcp", "http://127.0.0.1:3002/mcp"},
		Feeds: []report.Feed{
			{
				Era: "legacy", Revision: "2025-11-25", State: feed.Degraded, Since: at.Add(-time.Hour), Listening: true, Next: &next,
				Failure: &report.Failure{Stage: "tools", Message: "no answer within 30s\x1b[31m", At: at.Add(-time.Minute)},
			},
			{
				Era: "modern", Revision: "2026-07-28", State: feed.Unsupported, Since: at,
				Failure: &report.Failure{Stage: "connect", Message: "answered 400", At: at},
			},
		},
		Kinds: []report.Snapshot{
			{Kind: "tools", Revision: "2025-11-25", Items: 42, Bytes: 4096, Digest: strings.Repeat("0a", 32), Age: 61.2, TTL: -3.4, Uncacheable: "ttlMs 0", Hits: 7},
			{Kind: "prompts", Revision: "2025-11-25", Items: 1, Bytes: 10, Digest: strings.Repeat("f0", 32), TTL: -3},
			{Kind: "discover", Revision: "2026-07-28", Bytes: 10, Digest: strings.Repeat("f0", 32), TTL: 10},
		},
		Fleet: &report.Fleet{
			State: report.Together, Since: at.Add(-time.Minute), Name: "web-1-ab", Members: []string{"web-1-ab", "web-2-cd\x1b[31m"}, OtherSecrets: []string{"web-2-cd"},
			Leases:  []report.Lease{{Revision: "2025-11-25", Kind: "tools", Holder: "web-2-cd"}},
			Failure: "out of memory\x1b[31m", Ignored: 2,
		},
		Program: &report.ProgramStatus{
			Era: "legacy", Sessions: 5, Starts: 12, FailedStarts: 1, Stopped: 7, Died: 3, Skipped: 2,
			Failure:   &report.StartFailure{Message: "program full did not start: no such file\x1b[31m", At: at.Add(-time.Minute), Next: at.Add(20 * time.Second)},
			LastExit:  &report.Exit{PID: 18, At: at.Add(-time.Minute), How: "exit status 0", StandardError: "well"},
			LastDeath: &report.Exit{PID: 17, At: at.Add(-2 * time.Minute), How: "exit status 1", Died: true, StandardError: "Error: no database\n    at main\x1b[31m"},
			Processes: []report.Process{
				{PID: 11, Since: at.Add(-time.Hour), Serves: "a session", Calls: 2, Memory: 66 << 20, StandardError: "ready"},
				{PID: 12, Since: at.Add(-time.Second), Serves: "all sessions"},
			},
		},
		Rules: []report.Rule{
			{
				Number: 0, Effect: "allow", Kind: "tools", Items: []string{"a*", "b*"}, Match: json.RawMessage(`[{"header":{"X-Team":["a"]}}]`),
				Unused: []string{"b*"}, Failures: 3, Failing: true,
			},
			{Number: 1, Effect: "deny", Kind: "tools", Items: []string{"*_drop"}},
		},
		Views: []report.View{
			{Key: strings.Repeat("ab", 32), Rules: []int{0, 1}, Lists: []report.ShownList{
				{Kind: "tools", Revision: "2025-11-25", Items: 7, Bytes: 2048, Hits: 12},
				{Kind: "prompts", Revision: "2025-11-25", Bytes: 900, Hits: 1},
			}},
			{Key: strings.Repeat("cd", 32), Rules: []int{}, Lists: []report.ShownList{{Kind: "tools", Revision: "2025-11-25", Items: 6, Bytes: 2000, Hits: 4}}},
		},
		Warnings: []string{"rule 0 (allow tools a* b*) matches nothing of the lists with b*\x1b[31m"},
	}
}

// Program is one that does nothing but to tell how it is, and to count restarts.
type Program struct {
	Is       program.Status
	Restarts int
}

// Status implements [report.Program].
func (p *Program) Status() program.Status { return p.Is }

// Restart implements [report.Program]. It stops what the status says that runs.
func (p *Program) Restart() int {
	p.Restarts++
	return len(p.Is.Processes)
}

// Interface guards
var _ report.Program = (*Program)(nil)
