package several

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestToolkitRefusesRequestsOfServers: a server that asks the client for something, whatever the
// client can do, is told at once that it will not get it. The client is given nothing of it, and
// the call goes on.
func TestToolkitRefusesRequestsOfServers(t *testing.T) {
	w, m := caddytest.NewMember(t, "one")
	w.SetRevisions(legacyRevisions...)
	large := fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}],"maxTokens":1}`, strings.Repeat("large ", 20_000))
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		var asked sync.WaitGroup
		x.Event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"message":"hello"}}`)
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
		for _, none := range []string{`"id":null,`, ``, `"id":1,"id":2,`} { // nobody could answer these
			x.Event(`{"jsonrpc":"2.0",` + none + `"method":"sampling/createMessage","params":{}}`)
		}
		x.Event(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		x.Event(x.Envelope(`{"content":[{"type":"text","text":"done"}]}`))
	})
	command, _ := caddytest.MisbehavingProgram(t)
	p := caddytest.StartProxy(t, "mcp_cache {\nserver one "+m.URL+"\nserver files {\n"+caddytest.ProgramUpstream(command)+"\n}\n}")
	for _, revision := range []string{"2025-03-26", scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "")
		fixture.Await(t, "the tools of both", func() bool { return len(c.List(scripted.ToolsList).Items("tools")) == 3 })
		for tool, want := range map[string]string{"one__item-0000": "done", "files__ask": "-32601"} {
			a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q,"arguments":{}`, tool)))
			if !strings.Contains(a.Text(), want) {
				t.Errorf("%s: a call of %s gave %s: %s", revision, tool, a, a.Body)
			}
			for _, none := range []string{"sampling", "elicitation", "roots", "ping", "cancelled"} {
				if strings.Contains(string(a.Body), `"method":"`+none) || strings.Contains(string(a.Body), "notifications/"+none) {
					t.Errorf("%s: a client of %s is sent %.500s", revision, tool, a.Body)
				}
			}
			if tool == "one__item-0000" && !strings.Contains(string(a.Body), "hello") {
				t.Errorf("%s: the server's own message is missing: %.500s", revision, a.Body)
			}
		}
	}
}

// TestToolkitDropsRequestsOfModernServers: servers of 2026-07-28 do not ask, but by their results.
// What one asks all the same has no answer that could reach it, and reaches no client.
func TestToolkitDropsRequestsOfModernServers(t *testing.T) {
	w, m := caddytest.NewMember(t, "one")
	w.SetRevisions(scripted.Modern)
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		x.Event(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`)
		x.Event(x.Envelope(`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`))
	})
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}))
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "")
		caddytest.HasListed(t, c, scripted.ToolsList, 2)
		if a := c.Call("tools/call", c.Params(`"name":"one__item-0000","arguments":{}`)); a.Text() != "done" || strings.Contains(string(a.Body), "sampling") {
			t.Errorf("%s: a call gave %s: %s", revision, a, a.Body)
		}
	}
}

// TestToolkitEndsWhatIsNoResponse: an answer ends where something that has begun as a long response,
// and is passed on as it comes, turns out to be a notice or a request to some clients.
func TestToolkitEndsWhatIsNoResponse(t *testing.T) {
	w, m := ruledServer(t, "one", map[string][]string{scripted.ToolsList: {"get"}, scripted.ResourcesList: {"docs://secret"}})
	w.SetRevisions(scripted.Modern)
	long := strings.Repeat("x", 100_000)
	var said string
	w.SetScript("tools/call", func(x *scripted.Exchange) { x.Event(strings.Replace(said, "ID", string(x.ID), 1)) })
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}, "deny resources docs://secret"))
	c := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 1)
	call := func() (string, error) {
		params := c.Params(`"name":"one__get","arguments":{}`)
		res, err := c.Open(t.Context(), http.MethodPost, strings.NewReader(fixture.Message("7", "tools/call", params)),
			http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"one__get"}})
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	for _, tail := range []string{`"method":"notifications/resources/updated","params":{"uri":"docs://secret"}`, `"METHOD":"sampling/createMessage","params":{}`, `"method\u0000":"x"`} {
		said = `{"jsonrpc":"2.0","id":ID,"result":{"x":"` + long + `"},` + tail + `}`
		if body, err := call(); err == nil || strings.Contains(body, tail) {
			t.Errorf("behind a result, %s is passed on: %.100s, %v", tail, body[max(0, len(body)-100):], err)
		}
	}
	said = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","method":"inner","content":[{"type":"text","text":"` + long + `"}]},"x":{"method":"y"}}`
	if body, err := call(); err != nil || !strings.Contains(body, strings.Replace(said, "ID", "7", 1)) {
		t.Errorf("a result with methods within is given as %.100s, %v", body, err)
	}
}

// TestToolkitHidesUpdates: of a resource that is hidden no client is told that it has changed,
// whatever the eras of client and server are, and however long the notice is.
func TestToolkitHidesUpdates(t *testing.T) {
	for era, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}} {
		t.Run(era, func(t *testing.T) {
			w, m := ruledServer(t, "one", map[string][]string{scripted.ToolsList: {"get"}, scripted.ResourcesList: {"docs://public", "docs://secret"}})
			w.SetRevisions(revisions...)
			w.SetScript("tools/call", func(x *scripted.Exchange) {
				const update = `"method":"notifications/resources/updated"`
				for _, more := range []string{"", strings.Repeat("x", 10_000), strings.Repeat("x", 100_000)} {
					for _, said := range []string{
						update + `,"params":{"uri":"docs://public"MORE}`, update + `,"params":{"uri":"docs://secret"MORE}`, update + `,"params":{"uri":"docs://public","URI":"docs://secret"MORE}`,
						`"id":null,"result":null,"error":null,` + update + `,"params":{"uri":"docs://secret"MORE}`, `"params":{"uri":"docs://secret"MORE},` + update,
						`"method":"notifications/resources/updated\u0000","params":{"uri":"docs://secret"MORE}`, `"method":"notifications/progress",` + update + `,"params":{"uri":"docs://secret"MORE}`,
						`"method":"notifications/progress","Method":"notifications/resources/updated","params":{"uri":"docs://secret"MORE}`,
					} {
						x.Event(`{"jsonrpc":"2.0",` + strings.ReplaceAll(said, "MORE", fmt.Sprintf(`,"_meta":{"x":%q}`, more)) + `}`)
					}
				}
				x.Event(x.Envelope(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":"done%s"}]}`, strings.Repeat("x", 10_000))))
			})
			p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}, "deny resources docs://secret"))
			for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
				c := fixture.New(t, p.URL, revision, "")
				caddytest.HasListed(t, c, scripted.ToolsList, 1)
				a := c.Call("tools/call", c.Params(`"name":"one__get","arguments":{}`))
				told := strings.Count(string(a.Body), "docs://public")
				want := 3
				if c.Modern() && era == "legacy" {
					want = 0 // a modern client is told on a stream of its own
				}
				if strings.Contains(string(a.Body), "secret") {
					t.Errorf("%s is told %.300s", revision, a.Body)
				}
				if told != want || !strings.HasPrefix(a.Text(), "done") {
					t.Errorf("%s: told of %d updates, want %d: %.300s", revision, told, want, a.Body)
				}
			}
		})
	}
}
