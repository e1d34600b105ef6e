package several

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// legacyRevisions are those with sessions.
var legacyRevisions = []string{"2025-03-26", "2025-06-18", "2025-11-25"}

// legacyClient returns a client that has opened a session with a toolkit, which has listed n
// tools.
func legacyClient(t testing.TB, p *caddytest.Proxy, revision string, n int) *fixture.Raw {
	t.Helper()
	c := fixture.NewLegacy(t, p.URL, revision, "Bearer canary-token")
	caddytest.HasListed(t, c, scripted.ToolsList, n)
	return c
}

// sessionsOf returns the sessions in which clients have sent requests of a method, in order.
func sessionsOf(w *caddytest.World, method string) (ids []string) {
	for _, r := range clientsOf(w) {
		if r.Method == method {
			ids = append(ids, r.Header.Get("Mcp-Session-Id"))
		}
	}
	return ids
}

// TestToolkitSessions: clients with sessions list, call, get, read and complete; each server
// that they use has one session for each of them, and none of another's.
func TestToolkitSessions(t *testing.T) {
	for _, revision := range legacyRevisions {
		t.Run(revision, func(t *testing.T) { useSessions(t, revision) })
	}
}

func useSessions(t *testing.T, revision string) {
	one, first := caddytest.NewMember(t, "one")
	two, second := caddytest.NewMember(t, "two")
	for _, w := range []*caddytest.World{one, two} {
		w.SetRevisions(legacyRevisions...)
		for _, method := range []string{"prompts/get", "resources/read", "completion/complete"} {
			w.SetScript(method, func(x *scripted.Exchange) { x.Result(`{"messages":[],"contents":[],"completion":{"values":[]}}`) })
		}
	}
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	a, b := legacyClient(t, p, revision, 4), legacyClient(t, p, revision, 4)
	if a.Revision != revision || a.Session == b.Session || len(a.Session) > 200 {
		t.Errorf("revision %s, sessions %q and %q", a.Revision, a.Session, b.Session)
	}
	for _, method := range scripted.ListMethods() {
		got := caddytest.HasListed(t, a, method, 4)
		if members := string(got.Part("result")); strings.Contains(members, "ttlMs") || strings.Contains(members, "resultType") {
			t.Errorf("%s has members of the modern era: %s", method, members)
		}
	}
	if n := len(clientsOf(one)) + len(clientsOf(two)); n != 0 {
		t.Errorf("before any call, %d requests have reached servers", n)
	}
	for _, c := range []*fixture.Raw{a, b, a} {
		for _, call := range []struct {
			method, params string
			to             *caddytest.World
			body           string
		}{
			{"tools/call", `{"name":"one__item-0000","arguments":{"n":1.0e+00}}`, one, `{"name":"item-0000","arguments":{"n":1.0e+00}}`},
			{"tools/call", `{"name":"two__item-0001","_meta":{"progressToken":"p"}}`, two, `{"name":"item-0001","_meta":{"progressToken":"p"}}`},
			{"prompts/get", `{"name":"two__item-0001"}`, two, `{"name":"item-0001"}`},
			{"resources/read", `{"uri":"one://item-0001"}`, one, `{"uri":"one://item-0001"}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"two__item-0001"},"argument":{"name":"a","value":"v"}}`, two, `"name":"item-0001"`},
		} {
			before := len(clientsOf(one)) + len(clientsOf(two))
			got := c.Call(call.method, call.params)
			if got.Status != http.StatusOK || got.ErrorCode() != 0 {
				t.Errorf("%s %s gave %s: %s", call.method, call.params, got, got.Body)
				continue
			}
			all := clientsOf(call.to)
			if n := len(clientsOf(one)) + len(clientsOf(two)) - before; n != 1 || len(all) == 0 {
				t.Errorf("%s: %d requests reached servers", call.method, n)
				continue
			}
			r := all[len(all)-1]
			if !strings.Contains(string(r.Body), call.body) || r.Header.Get("Mcp-Protocol-Version") != revision || r.Header.Get("Mcp-Session-Id") == c.Session {
				t.Errorf("%s: the server was sent %s, %v", call.method, r.Body, r.Header)
			}
			if r.Header.Get("Authorization") != "" {
				t.Errorf("%s: the server was sent the client's credential", call.method)
			}
		}
	}
	if ids := sessionsOf(one, "tools/call"); len(ids) != 3 || ids[0] == ids[1] || ids[0] != ids[2] {
		t.Errorf("calls of a, b and a were in the sessions %q", ids)
	}
	ids := sessionsOf(two, "tools/call")
	if d := a.Delete(); d.Status != http.StatusNoContent {
		t.Errorf("the end of a session gave %s", d)
	}
	fixture.Await(t, "the server's session to end", func() bool { return !two.Lives(ids[0]) })
	if !two.Lives(ids[1]) {
		t.Error("the session of another client has ended, too")
	}
	if got := a.List(scripted.ToolsList); got.Status != http.StatusNotFound {
		t.Errorf("a list in a session that has ended gave %s", got)
	}
	if got := a.Delete(); got.Status != http.StatusNotFound {
		t.Errorf("another end gave %s", got)
	}
	wantHitOf(t, b.List(scripted.ToolsList))
}

// TestToolkitSessionAnswers: what is answered here, and what is refused, in the words of the
// legacy era.
func TestToolkitSessionAnswers(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	c := legacyClient(t, p, "2025-11-25", 2)
	post := func(body string, session ...string) *fixture.Answer {
		return c.Post(body, http.Header{"Mcp-Session-Id": session})
	}
	list := fixture.Message("1", scripted.ToolsList, "{}")
	version := func(v string) *fixture.Answer {
		return c.Post(list, http.Header{"Mcp-Protocol-Version": {v}})
	}
	changed := c.Session[:len(c.Session)-3] + "AAA"
	for name, tt := range map[string]struct {
		got          *fixture.Answer
		status, code int
	}{
		"ping":                 {c.Call("ping", "{}"), 200, 0},
		"a level":              {c.Call("logging/setLevel", `{"level":"warning"}`), 200, 0},
		"no level":             {c.Call("logging/setLevel", `{"level":"loud"}`), 200, -32602},
		"an unknown tool":      {c.Call("tools/call", `{"name":"three__x"}`), 200, -32602},
		"an unknown prompt":    {c.Call("prompts/get", `{"name":"x"}`), 200, -32602},
		"an unknown resource":  {c.Call("resources/read", `{"uri":"three://x"}`), 200, -32602}, // the only server with resources has the last word
		"an unknown method":    {c.Call("tools/run", "{}"), 200, -32601},
		"subscribing":          {c.Call("resources/subscribe", `{"uri":"one://item-0000"}`), 200, -32601},
		"a modern method":      {c.Call("server/discover", "{}"), 200, -32601},
		"a cursor":             {c.Call(scripted.ToolsList, `{"cursor":"x"}`), 200, -32602},
		"an answer":            {post(`{"jsonrpc":"2.0","id":7,"result":{}}`, c.Session), 202, 0},
		"a notification":       {c.Notify("notifications/roots/list_changed", "{}"), 202, 0},
		"a batch":              {post("["+list+"]", c.Session), 400, -32600},
		"no session":           {post(list), 400, -32600},
		"two sessions":         {post(list, c.Session, c.Session), 400, -32600},
		"a forged session":     {post(list, changed), 404, -32600},
		"a made-up session":    {post(list, "session-1"), 404, -32600},
		"a long session":       {post(list, strings.Repeat("x", 2000)), 404, -32600},
		"a forged, notified":   {post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, changed), 404, -32600},
		"another version":      {version("2025-06-18"), 200, 0},
		"no version":           {c.Post(list, http.Header{"Mcp-Protocol-Version": nil}), 200, 0},
		"an unknown version":   {version("2024-01-01"), 400, -32022},
		"initialize, nothing":  {post(fixture.Message("1", "initialize", `{}`)), 400, -32602},
		"initialize, again":    {post(fixture.Message("1", "initialize", `{"protocolVersion":"2026-07-28","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`), c.Session), 200, 0},
		"initialize, repeated": {post(fixture.Message("1", "initialize", `{"protocolVersion":"2025-11-25","capabilities":{"a":1,"a":2},"clientInfo":{"name":"x","version":"1"}}`)), 400, -32602},
	} {
		if tt.got.Status != tt.status || tt.got.ErrorCode() != tt.code {
			t.Errorf("%s gave %s: %s", name, tt.got, tt.got.Body)
		}
		if name == "initialize, again" {
			if id := tt.got.Header.Get("Mcp-Session-Id"); id == "" || id == c.Session || string(tt.got.Part("result", "protocolVersion")) != `"2025-11-25"` {
				t.Errorf("%s: session %q: %s", name, id, tt.got.Body)
			}
		}
	}
	if a, err := c.Try(t.Context(), http.MethodDelete, "", http.Header{"Mcp-Session-Id": nil}); err != nil || a.Status != http.StatusBadRequest {
		t.Errorf("an end without a session: %v, %v", a, err)
	}
	if n := one.Host.Count("tools/call"); n != 0 {
		t.Errorf("%d calls have reached the server", n)
	}
}

// TestToolkitSessionLevel: servers are told which log messages a client wants, those that it
// begins to use later too; and that nobody waits for an answer any more.
func TestToolkitSessionLevel(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	two, second := caddytest.NewMember(t, "two")
	var members []caddytest.Member
	for i, w := range []*caddytest.World{one, two} {
		w.SetCapabilities(`{"tools":{"listChanged":true},"logging":{}}`)
		members = append(members, []caddytest.Member{first, second}[i])
	}
	p := caddytest.StartProxy(t, caddytest.ToolkitOf(members))
	c := legacyClient(t, p, "2025-11-25", 4)
	told := func(w *caddytest.World) string {
		all := w.Host.Requests(func(r *fixture.Request) bool { return r.Method == "logging/setLevel" })
		if len(all) == 0 {
			return ""
		}
		return string(all[len(all)-1].Body)
	}
	c.Call("tools/call", `{"name":"one__item-0000"}`)
	c.Call("logging/setLevel", `{"level":"warning"}`)
	fixture.Await(t, "the first server to know", func() bool { return strings.Contains(told(one), `"level":"warning"`) })
	if told(two) != "" {
		t.Error("a server was told that the client does not use")
	}
	c.Call("tools/call", `{"name":"two__item-0000"}`)
	if !strings.Contains(told(two), `"level":"warning"`) {
		t.Errorf("the second server was called before it knew: %s", told(two))
	}

	// What one server works on ends there, and not at the other.
	working, ended := make(chan struct{}), make(chan struct{})
	one.SetScript("tools/call", func(x *scripted.Exchange) {
		close(working)
		<-ended
		x.Result(`{"content":[]}`)
	})
	var calling sync.WaitGroup
	calling.Go(func() {
		_, _ = c.Try(t.Context(), http.MethodPost, fixture.Message(`"long"`, "tools/call", `{"name":"one__item-0000"}`), nil)
	})
	<-working
	if a := c.Notify("notifications/cancelled", `{"requestId":"long","reason":"tired"}`); a.Status != http.StatusAccepted {
		t.Errorf("a cancellation gave %s", a)
	}
	c.Notify("notifications/cancelled", `{"requestId":"another"}`)
	if n := one.Host.Count("notifications/cancelled"); n != 1 || two.Host.Count("notifications/cancelled") != 0 {
		t.Errorf("%d cancellations have reached the server that works, %d the other", n, two.Host.Count("notifications/cancelled"))
	}
	if ids := sessionsOf(one, "notifications/cancelled"); !slices.Equal(ids, sessionsOf(one, "tools/call")[1:]) {
		t.Errorf("it was cancelled in the session %q", ids)
	}
	close(ended)
	calling.Wait()
}

// TestToolkitSessionLost: a server that has lost its sessions is given another, once for all
// who call it, and each call is made once.
func TestToolkitSessionLost(t *testing.T) {
	for name, refuse := range map[string]func(x *scripted.Exchange){
		"404": func(x *scripted.Exchange) { x.Error(404, -32001, "session not found") },
		"400 as TypeScript servers do": func(x *scripted.Exchange) {
			x.Raw(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
		},
		"400 in plain words": func(x *scripted.Exchange) { x.Raw(400, "text/plain", "session unknown") },
		"401":                func(x *scripted.Exchange) { x.Raw(401, "text/plain", "") },
		"400 as Python servers did": func(x *scripted.Exchange) {
			x.Raw(400, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: No valid session ID provided"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, first := caddytest.NewMember(t, "one")
			one.SetRevisions(legacyRevisions...)
			var mu sync.Mutex
			done := make(map[string]int)
			one.SetScript("tools/call", func(x *scripted.Exchange) {
				if !one.Lives(x.Session) {
					refuse(x)
					return
				}
				mu.Lock()
				done[string(x.Params)]++
				mu.Unlock()
				x.Result(`{"content":[]}`)
			})
			p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
			c := legacyClient(t, p, "2025-11-25", 2)
			c.Call("tools/call", `{"name":"one__item-0000"}`)
			clientsOpened := func() int {
				return len(one.Host.Requests(func(r *fixture.Request) bool {
					return r.Method == "initialize" && strings.Contains(string(r.Body), `"name":"raw"`)
				}))
			}
			if n := clientsOpened(); n != 1 {
				t.Fatalf("%d sessions were opened for the client", n)
			}
			one.ForgetSessions()
			const calls = 20
			var calling sync.WaitGroup
			for n := range calls {
				calling.Go(func() {
					a, err := c.Try(t.Context(), http.MethodPost, fixture.Message(fmt.Sprint(1000+n), "tools/call", fmt.Sprintf(`{"name":"one__item-0000","arguments":{"n":%d}}`, n)), nil)
					if err != nil || a.Status != http.StatusOK || a.ErrorCode() != 0 {
						t.Errorf("call %d: %v, %v", n, a, err)
					}
				})
			}
			calling.Wait()
			if n := clientsOpened(); n != 2 {
				t.Errorf("%d sessions were opened for the client, want one more", n)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(done) != calls+1 {
				t.Errorf("%d calls were made", len(done))
			}
			for params, times := range done {
				if times != 1 {
					t.Errorf("%s was done %d times", params, times)
				}
			}
		})
	}
}

// TestToolkitSessionOver: a server that answers a call with 404 is not asked again while it
// knows the session, and the client's own does not end, unless the operator wants that when the
// server's is lost.
func TestToolkitSessionOver(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	two, second := caddytest.NewMember(t, "two", "session_lost end")
	for _, w := range []*caddytest.World{one, two} {
		w.SetRevisions(legacyRevisions...)
	}
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	c := legacyClient(t, p, "2025-11-25", 4)
	for _, w := range []*caddytest.World{one, two} {
		name := map[*caddytest.World]string{one: "one", two: "two"}[w]
		call := func(script scripted.Script, status, code int) {
			t.Helper()
			w.Host.Forget()
			w.SetScript("tools/call", script)
			if a := c.Call("tools/call", fmt.Sprintf(`{"name":"%s__item-0000"}`, name)); a.Status != status || a.ErrorCode() != code {
				t.Errorf("the call gave %s: %s", a, a.Body)
			}
			if n := w.Host.Count("tools/call"); n != 1 {
				t.Errorf("the server was called %d times", n)
			}
			wantHitOf(t, c.List(scripted.ToolsList))
		}
		call(scripted.Status(http.StatusNotFound), 502, -32603)
		call(func(x *scripted.Exchange) { x.Error(404, -32000, "no such page") }, 200, -32000)
		call(func(x *scripted.Exchange) { x.Error(400, -32000, "no such page") }, 400, -32000)
		call(scripted.Status(http.StatusUnauthorized), 502, -32603)
		if ids := sessionsOf(w, "tools/call"); len(ids) != 1 || !w.Lives(ids[0]) {
			t.Errorf("the sessions were %q", ids)
		}
	}
	two.SetScript("tools/call", nil)
	two.ForgetSessions()
	if a := c.Call("tools/call", `{"name":"two__item-0000"}`); a.Status != http.StatusNotFound {
		t.Errorf("a call in a session that was lost gave %s, want the end of the client's", a)
	}
	if a := c.List(scripted.ToolsList); a.Status != http.StatusNotFound {
		t.Errorf("then a list gave %s", a)
	}
}

// TestToolkitSessionOpening: what is cancelled while its session is being opened is never
// sent; and what a server says of itself is not kept, and has a bound.
func TestToolkitSessionOpening(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	one.SetRevisions(legacyRevisions...)
	two, second := caddytest.NewMember(t, "two")
	two.SetRevisions(legacyRevisions...)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	c := legacyClient(t, p, "2025-11-25", 4)
	opening, release := make(chan struct{}, 8), make(chan struct{})
	one.SetScript("initialize", func(x *scripted.Exchange) {
		opening <- struct{}{}
		<-release
		x.Default()
	})
	var calling sync.WaitGroup
	calling.Go(func() {
		a, err := c.Try(t.Context(), http.MethodPost, fixture.Message("7", "tools/call", `{"name":"one__item-0000"}`), nil)
		if err != nil || a.ErrorCode() != -32600 {
			t.Errorf("a call that was cancelled gave %v, %v", a, err)
		}
	})
	<-opening
	c.Notify("notifications/cancelled", `{"requestId":7}`)
	calling.Wait()
	close(release)
	one.SetScript("initialize", nil)
	if a := c.Call("tools/call", `{"name":"one__item-0001"}`); a.Status != http.StatusOK || one.Host.Count("tools/call") != 1 {
		t.Errorf("the next call gave %s, the server was called %d times", a, one.Host.Count("tools/call"))
	}
	two.SetScript("initialize", func(x *scripted.Exchange) {
		x.Result(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"},"instructions":"` + strings.Repeat("x", 1<<20) + `"}`)
	})
	if a := c.Call("tools/call", `{"name":"two__item-0000"}`); a.Status != http.StatusBadGateway || a.ErrorCode() != -32603 {
		t.Errorf("a server with much to say gave %s", a)
	}
}

// TestToolkitSessionRestart: the sessions of clients live on when Caddy is restarted, those
// with servers when it is reloaded; a server whose options are changed gets new ones.
func TestToolkitSessionRestart(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	two, second := caddytest.NewMember(t, "two")
	for _, w := range []*caddytest.World{one, two} {
		w.SetRevisions(legacyRevisions...)
	}
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}, "gate 1m"))
	c := legacyClient(t, p, "2025-06-18", 4)
	call := func() (ids [2]string) {
		t.Helper()
		for i, w := range []*caddytest.World{one, two} {
			if a := c.Call("tools/call", fmt.Sprintf(`{"name":"%s__item-0000"}`, []string{"one", "two"}[i])); a.Status != http.StatusOK || a.ErrorCode() != 0 {
				t.Errorf("a call gave %s: %s", a, a.Body)
			}
			all := sessionsOf(w, "tools/call")
			ids[i] = all[len(all)-1]
		}
		return ids
	}
	before := call()
	second.Options = []string{"endpoint /mcp", "scope public"}
	p.Reload(caddytest.ToolkitOf([]caddytest.Member{first, second}, "gate 1m"))
	if after := call(); after[0] != before[0] || after[1] == before[1] {
		t.Errorf("after a reload that has changed the second server, the sessions are %q, before %q", after, before)
	}
	caddytest.GoIdle(t)
	p.Reload(caddytest.ToolkitOf([]caddytest.Member{first, second}, "gate 1m"))
	fixture.CloseIdleConnections()
	if after := call(); after[0] == before[0] {
		t.Errorf("after a restart, the sessions are %q, before %q", after, before)
	}
	caddytest.HasListed(t, c, scripted.ToolsList, 4)
}

// TestToolkitMaxSessions: one session more than there may be ends what is open for the one
// that was used longest ago, which goes on all the same.
func TestToolkitMaxSessions(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	one.SetRevisions(legacyRevisions...)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}, "max_sessions 2"))
	var clients []*fixture.Raw
	for range 3 {
		c := legacyClient(t, p, "2025-11-25", 2)
		clients = append(clients, c)
		c.Call("tools/call", `{"name":"one__item-0000"}`)
	}
	ids := sessionsOf(one, "tools/call")
	fixture.Await(t, "the first session to end", func() bool { return !one.Lives(ids[0]) })
	if !one.Lives(ids[1]) || !one.Lives(ids[2]) {
		t.Error("more has ended")
	}
	var status struct{ Sessions int }
	caddytest.AwaitReady(t, "mcp_cache/one") // the feeds of the other era, too
	caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &status)
	if status.Sessions != 2 {
		t.Errorf("status counts %d sessions", status.Sessions)
	}
	if a := clients[0].Call("tools/call", `{"name":"one__item-0000"}`); a.Status != http.StatusOK {
		t.Errorf("the first client's next call gave %s", a)
	}
	// With none of them idle, there is no room.
	working, release := make(chan struct{}, 2), make(chan struct{})
	one.SetScript("tools/call", func(x *scripted.Exchange) {
		working <- struct{}{}
		<-release
		x.Result(`{"content":[]}`)
	})
	var calling sync.WaitGroup
	for _, c := range clients[:2] {
		calling.Go(func() {
			_, _ = c.Try(t.Context(), http.MethodPost, fixture.Message("1", "tools/call", `{"name":"one__item-0000"}`), nil)
		})
	}
	<-working
	<-working
	if a := clients[2].Call("tools/call", `{"name":"one__item-0000"}`); a.Status != http.StatusServiceUnavailable || a.ErrorCode() != -32603 || a.Header.Get("Retry-After") == "" {
		t.Errorf("one too many gave %s", a)
	}
	wantHitOf(t, clients[2].List(scripted.ToolsList))
	close(release)
	calling.Wait()
}

// TestToolkitEndsAllSessions: however many clients end their sessions at once, all that is open for them at a slow
// server ends.
func TestToolkitEndsAllSessions(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	one.SetRevisions(legacyRevisions...)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	var clients []*fixture.Raw
	for range 40 {
		c := legacyClient(t, p, "2025-11-25", 2)
		c.Call("tools/call", `{"name":"one__item-0000"}`)
		clients = append(clients, c)
	}
	release := make(chan struct{})
	one.SetDoor(func(r *http.Request) int {
		if r.Method == http.MethodDelete {
			<-release
		}
		return http.StatusOK
	})
	for _, c := range clients {
		c.Delete()
	}
	close(release)
	for _, id := range sessionsOf(one, "tools/call") {
		fixture.Await(t, "a session to end", func() bool { return !one.Lives(id) })
	}
}

// TestToolkitSessionOfUser: where a handler in front authenticates, the session of one user is
// unknown to another.
func TestToolkitSessionOfUser(t *testing.T) {
	_, first := caddytest.NewMember(t, "one")
	p := caddytest.StartProxy(t, forUsers(caddytest.ToolkitOf([]caddytest.Member{first})))
	ada := fixture.NewLegacy(t, p.URL, "2025-11-25", user("ada"))
	caddytest.HasListed(t, ada, scripted.ToolsList, 2)
	bob := fixture.NewLegacy(t, p.URL, "2025-11-25", user("bob"))
	own := bob.Session
	bob.Session = ada.Session
	if a := bob.List(scripted.ToolsList); a.Status != http.StatusNotFound {
		t.Errorf("the session of another user gave %s", a)
	}
	if a := bob.Delete(); a.Status != http.StatusNotFound {
		t.Errorf("ending it gave %s", a)
	}
	bob.Session = own
	wantHitOf(t, bob.List(scripted.ToolsList))
	wantHitOf(t, ada.List(scripted.ToolsList))
}
