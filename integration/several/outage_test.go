package several

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// troublesIn returns how many lines at the levels warn and error a log has, without those of feeds, which say each
// change of their state.
func troublesIn(log string) (n int) {
	for line := range strings.Lines(log) {
		if (strings.Contains(line, `"level":"warn"`) || strings.Contains(line, `"level":"error"`)) && !strings.Contains(line, `"feed changed state"`) {
			n++
		}
	}
	return n
}

// TestToolkitOutagesAreLoggedOnce has many requests fail as the door is down, or another server: the log has a line
// when that begins, and one when it is over.
func TestToolkitOutagesAreLoggedOnce(t *testing.T) {
	for name, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}} {
		for _, revision := range []string{"2025-06-18", scripted.Modern} {
			t.Run(name+", "+revision, func(t *testing.T) {
				p := newDoored(t, revisions)
				c := fixture.New(t, p.URL, revision, "Bearer good")
				caddytest.HasListed(t, c, scripted.ToolsList, 6)
				metadata := strings.TrimSuffix(p.URL, "/mcp") + "/.well-known/oauth-protected-resource"
				ask := func(i int) (statuses [3]int) {
					stranger := fixture.NewModern(t, p.URL, fmt.Sprint("Bearer stranger ", i))
					if stranger.Revision = revision; revision == scripted.Modern {
						statuses[0] = stranger.List(scripted.ToolsList).Status
					} else {
						statuses[0] = stranger.Call("initialize", fixture.InitializeParams("2025-06-18")).Status
					}
					a, err := fixture.NewModern(t, metadata, "").Try(t.Context(), http.MethodGet, "", nil)
					if err != nil {
						t.Fatal(err)
					}
					statuses[1] = a.Status
					statuses[2] = c.Call("tools/call", c.Params(`"name":"all__item-0000","arguments":{}`)).Status
					return statuses
				}
				before := troublesIn(p.Log())
				p.door.Host.Kill()
				p.all.Host.Kill()
				for i := range 10 {
					if got, want := ask(i), [3]int{http.StatusBadGateway, http.StatusBadGateway, http.StatusBadGateway}; got != want {
						t.Fatalf("while servers are down, requests have the statuses %v", got)
					}
				}
				// One each: the door for callers, its metadata, and the other server for calls, or for a session.
				log := p.Log()
				if n := troublesIn(log) - before; n < 3 || n > 4 {
					t.Errorf("30 requests that failed gave %d lines", n)
				}
				for _, line := range []string{`"door does not answer"`, `"door does not show its metadata"`} {
					if n := strings.Count(log, line); n != 1 {
						t.Errorf("the log says %s %d times", line, n)
					}
				}
				p.door.Host.Start()
				p.all.Host.Start()
				for i := range 2 {
					ask(10 + i)
				}
				for _, line := range []string{`"door answers again"`, `"door shows its metadata again"`} {
					if n := strings.Count(p.Log(), line); n != 1 {
						t.Errorf("afterwards the log says %s %d times", line, n)
					}
				}
			})
		}
	}
}
