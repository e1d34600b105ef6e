package lists

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestRestartsOfOthers stops servers with sessions, one that announces changes and
// one that does not, and starts them again: at once, or after a while in which
// lists come from before. The next list of the session then meets the server's
// refusal, and the lists of the next session are hits.
func TestRestartsOfOthers(t *testing.T) {
	o := caddytest.InstalledOthers(t)
	for name, command := range map[string]func(port string) []string{
		"announces changes": func(string) []string { return o.Everything() },
		"announces nothing": func(port string) []string { return o.Python("mcp1", "plain.py", port) },
	} {
		for how, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGTERM} {
			for rest, down := range map[string]time.Duration{"started at once": 0, "down for 5s": 5 * time.Second} {
				t.Run(name+", "+how+", "+rest, func(t *testing.T) {
					addr := fixture.FreeAddr(t)
					_, port, _ := strings.Cut(addr, ":")
					server := caddytest.StartOther(t, addr, command(port)...)
					p := caddytest.StartProxy(t, caddytest.Directive("http://"+addr+"/mcp"))
					session := fixture.NewLegacy(t, p.URL, scripted.LatestLegacy, "")
					session.Settle(scripted.ToolsList)
					server.End(signal)
					wantOldCopies(t, session, down)
					server.Start()
					for range 10 {
						if a := session.List(scripted.ToolsList); a.Status != http.StatusNotFound && a.Status != http.StatusBadRequest {
							t.Errorf("after the restart, a list of the session is %s", a)
						}
					}
					fixture.NewLegacy(t, p.URL, scripted.LatestLegacy, "").Settle(scripted.ToolsList)
				})
			}
		}
	}
}

// wantOldCopies lists for as long as a server is down: the copy is given.
func wantOldCopies(t *testing.T, session *fixture.Raw, down time.Duration) {
	t.Helper()
	if down > 0 { // that its stream has ended may have to reach the feed yet
		session.AwaitList(scripted.ToolsList, "an old copy", caddytest.IsStale)
	}
	for gone := time.Now(); time.Since(gone) < down; {
		if a := session.List(scripted.ToolsList); !caddytest.IsStale(a) {
			t.Errorf("while the server is down, a list is %s", a)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestCallersSeeWhatFastMCPKeepsSilent adds tools in calls of a FastMCP server,
// which announces them to nobody. Once that was found out, each caller's own next
// list has what its call has added, and so have those after it, most of them hits.
func TestCallersSeeWhatFastMCPKeepsSilent(t *testing.T) {
	o := caddytest.InstalledOthers(t)
	addr := fixture.FreeAddr(t)
	_, port, _ := strings.Cut(addr, ":")
	caddytest.StartOther(t, addr, o.Python("fastmcp", "growing.py", port)...)
	p := caddytest.StartProxy(t, caddytest.Directive("http://"+addr+"/mcp"))
	session := fixture.NewLegacy(t, p.URL, scripted.LatestLegacy, "")
	session.Settle(scripted.ToolsList)
	grow := func() (tool string) {
		a := session.Call("tools/call", session.Params(`"name":"grow","arguments":{}`))
		if err := json.Unmarshal(a.Part("result", "structuredContent", "result"), &tool); err != nil {
			t.Fatalf("growing: %s", a)
		}
		return tool
	}
	has := func(a *fixture.Answer, tool string) bool {
		return slices.ContainsFunc(a.Items("tools"), func(item string) bool { return strings.Contains(item, `"`+tool+`"`) })
	}
	first := grow()
	session.AwaitList(scripted.ToolsList, "the first tool that was added", func(a *fixture.Answer) bool { return has(a, first) })
	time.Sleep(time.Second) // in which its notice could still come
	const calls = 20
	seen, hits := 0, 0
	grown := ""
	fresh := func(a *fixture.Answer) bool { return a.CacheStatus().Hit && has(a, grown) }
	var longest time.Duration
	for range calls {
		tool := grow()
		began := time.Now()
		if a := session.List(scripted.ToolsList); has(a, tool) {
			seen++
		} else {
			t.Errorf("%s is missing in the caller's next list: %s", tool, a)
		}
		longest = max(longest, time.Since(began))
		grown = tool
		session.AwaitList(scripted.ToolsList, "a hit with "+tool, fresh) // once the feed has asked again
		for range 2 {
			if a := session.List(scripted.ToolsList); fresh(a) {
				hits++
			} else {
				t.Errorf("after a hit with %s, a list is %s", tool, a)
			}
		}
	}
	t.Logf("%d of %d tools are seen in the next list, after %v at most; %d of the %d lists after it are hits", seen, calls, longest, hits, 2*calls)
	if hits < calls*3/4 {
		t.Errorf("only %d of %d later lists are hits", hits, 2*calls)
	}
}
