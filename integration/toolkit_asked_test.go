package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestToolkitRefusesRequestsOfServers: a server that asks the client for something, whatever the
// client can do, is told at once that it will not get it. The client is given nothing of it, and
// the call goes on.
func TestToolkitRefusesRequestsOfServers(t *testing.T) {
	w, m := newMember(t, "one")
	w.SetRevisions(legacyRevisions...)
	large := fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}],"maxTokens":1}`, strings.Repeat("large ", 20_000))
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		var asked sync.WaitGroup
		x.Event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`)
		for i := range 12 { // at one time
			method, params := "sampling/createMessage", `{"messages":[],"maxTokens":1}`
			switch i {
			case 1:
				params = large
			case 2:
				method, params = "elicitation/create", `{"message":"who?","requestedSchema":{"type":"object","properties":{}}}`
			case 3:
				method, params = "roots/list", `{}`
			}
			asked.Go(func() {
				if a, ok := x.Ask(method, params); !ok || !strings.Contains(string(a.Body), "-32601") {
					t.Errorf("to %s the server is told %s, %v", method, a.Body, ok)
				}
			})
		}
		asked.Wait()
		if a, ok := x.Ask("ping", `{}`); !ok || !strings.Contains(string(a.Body), `"result":{}`) {
			t.Errorf("to a ping the server is told %s, %v", a.Body, ok)
		}
		x.Event(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		x.Event(x.Envelope(`{"content":[{"type":"text","text":"done"}]}`))
	})
	command, _ := testProgram(t)
	p := startProxy(t, "mcp_cache {\nserver one "+m.url+"\nserver files {\n"+programUpstream(command)+"\n}\n}")
	for _, revision := range []string{"2025-03-26", scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "")
		await(t, "the tools of both", func() bool { return len(c.List(toolsList).Items("tools")) == 3 })
		for tool, want := range map[string]string{"one__item-0000": "done", "files__ask": "-32601"} {
			a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q,"arguments":{}`, tool)))
			if !strings.Contains(textOf(a), want) {
				t.Errorf("%s: a call of %s gave %s: %s", revision, tool, describe(a), a.Body)
			}
			for _, none := range []string{"sampling", "elicitation", "roots", "ping", "cancelled"} {
				if strings.Contains(string(a.Body), `"method":"`+none) || strings.Contains(string(a.Body), "notifications/"+none) {
					t.Errorf("%s: a client of %s is sent %.500s", revision, tool, a.Body)
				}
			}
			if tool == "one__item-0000" && !strings.Contains(string(a.Body), "notifications/progress") {
				t.Errorf("%s: progress is missing: %.500s", revision, a.Body)
			}
		}
	}
}

// TestToolkitDropsRequestsOfModernServers: servers of 2026-07-28 do not ask, but by their results.
// What one asks all the same has no answer that could reach it, and reaches no client.
func TestToolkitDropsRequestsOfModernServers(t *testing.T) {
	w, m := newMember(t, "one")
	w.SetRevisions(scripted.Modern)
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		x.Event(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`)
		x.Event(x.Envelope(`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`))
	})
	p := startProxy(t, toolkitOf([]member{m}))
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "")
		hasListed(t, c, toolsList, 2)
		if a := c.Call("tools/call", c.Params(`"name":"one__item-0000","arguments":{}`)); textOf(a) != "done" || strings.Contains(string(a.Body), "sampling") {
			t.Errorf("%s: a call gave %s: %s", revision, describe(a), a.Body)
		}
	}
}

// TestToolkitHidesUpdates: of a resource that is hidden no client is told that it has changed,
// whatever the eras of client and server are, and however long the notice is.
func TestToolkitHidesUpdates(t *testing.T) {
	for era, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}} {
		t.Run(era, func(t *testing.T) {
			w, m := ruledServer(t, "one", map[string][]string{toolsList: {"get"}, resourcesList: {"docs://public", "docs://secret"}})
			w.SetRevisions(revisions...)
			w.SetScript("tools/call", func(x *scripted.Exchange) {
				for _, more := range []string{"", strings.Repeat("x", 10_000)} {
					for _, params := range []string{`"uri":"docs://public"`, `"uri":"docs://secret"`, `"uri":"docs://public","URI":"docs://secret"`} {
						x.Event(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{%s,"_meta":{"x":%q}}}`, params, more))
					}
				}
				x.Event(x.Envelope(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":"done%s"}]}`, strings.Repeat("x", 10_000))))
			})
			p := startProxy(t, toolkitOf([]member{m}, "deny resources docs://secret"))
			for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
				c := fixture.New(t, p.URL, revision, "")
				hasListed(t, c, toolsList, 1)
				a := c.Call("tools/call", c.Params(`"name":"one__get","arguments":{}`))
				told := strings.Count(string(a.Body), "docs://public")
				want := 2
				if c.Modern() && era == "legacy" {
					want = 0 // a modern client is told on a stream of its own
				}
				if strings.Contains(string(a.Body), "secret") {
					t.Errorf("%s is told %.300s", revision, a.Body)
				}
				if bridged := c.Modern() != (era == "modern"); bridged && (told != want || !strings.HasPrefix(textOf(a), "done")) {
					t.Errorf("%s: told of %d updates, want %d: %.300s", revision, told, want, a.Body)
				}
			}
		})
	}
}
