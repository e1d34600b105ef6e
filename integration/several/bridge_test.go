package several

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// forUsers puts a toolkit behind a handler that knows the users ada and bob.
func forUsers(toolkit string) string {
	const hash = "$2a$04$Y9kMlgpKEK0BgGsMFiX6Q.jB1ddZYZxBMybtJgDIyORzhwRZFOmLm" // of "word"
	return "route {\nbasic_auth {\nada " + hash + "\nbob " + hash + "\n}\n" + toolkit + "\n}"
}

// user is the credential of one of them.
func user(name string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":word"))
}

// TestBridge: clients of every revision list, call, get, read and complete on servers of both
// eras, which are sent what is valid in theirs, and with the session open one request.
func TestBridge(t *testing.T) {
	for name, serve := range map[string]func(w *caddytest.World){
		"legacy":             func(w *caddytest.World) { w.SetRevisions("2025-06-18") },
		"legacy, streams":    func(w *caddytest.World) { w.SetRevisions(legacyRevisions...); w.SetSSE(true) },
		"legacy, no session": func(w *caddytest.World) { w.SetRevisions(legacyRevisions...); w.SetSessions(false) },
		"modern":             func(w *caddytest.World) { w.SetRevisions(scripted.Modern) },
		"modern, streams":    func(w *caddytest.World) { w.SetRevisions(scripted.Modern); w.SetSSE(true) },
	} {
		t.Run(name, func(t *testing.T) {
			w, m := caddytest.NewMember(t, "one")
			serve(w)
			w.SetContents("one://item-0001", `"text":"x"`)
			p := caddytest.StartProxy(t, forUsers(caddytest.ToolkitOf([]caddytest.Member{m})))
			for _, revision := range append(legacyRevisions, scripted.Modern) {
				c := fixture.New(t, p.URL, revision, user("ada"))
				for _, method := range scripted.ListMethods() {
					for i, item := range caddytest.HasListed(t, c, method, 2).Items(scripted.ItemsKey(method)) {
						want := caddytest.OwnItems(method, "one")[i]
						if method == scripted.ToolsList || method == "prompts/list" {
							want = strings.Replace(want, `"name":"item`, `"name":"one__item`, 1)
						}
						if item != want {
							t.Errorf("%s: %s has %s, want %s", revision, method, item, want)
						}
					}
				}
				useOver(t, c, w)
			}
		})
	}
}

// useOver makes requests of every sort with a client of a toolkit.
func useOver(t *testing.T, c *fixture.Raw, w *caddytest.World) {
	t.Helper()
	for i, call := range []struct{ method, members, want string }{
		{"tools/call", `"name":"one__item-0000","arguments":{"n":1.0e+00}`, `"content"`}, // opens the session
		{"tools/call", `"name":"one__item-0000","arguments":{"n":1.0e+00}`, `"content"`},
		{"prompts/get", `"name":"one__item-0001"`, `"messages"`},
		{"resources/read", `"uri":"one://item-0001"`, `"contents"`},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"one__item-0001"},"argument":{"name":"a","value":"v"}`, `"completion"`},
	} {
		params := "{" + call.members + "}"
		if c.Modern() {
			params = c.Params(call.members)
		}
		clients := len(clientsOf(w))
		a := c.Call(call.method, params)
		result := string(a.Part("result"))
		if a.Status != http.StatusOK || !strings.Contains(result, call.want) {
			t.Errorf("%s: %s gave %s: %s", c.Revision, call.method, a, a.Body)
			continue
		}
		if n := strings.Count(result, `"resultType":"complete"`); c.Modern() && n != 1 || !c.Modern() && n > 1 {
			t.Errorf("%s: the result of %s has %d types: %s", c.Revision, call.method, n, result)
		}
		all := clientsOf(w)
		if n := len(all) - clients; i > 0 && n != 1 {
			t.Errorf("%s: %s cost the server %d requests", c.Revision, call.method, n)
			continue
		}
		r := all[len(all)-1]
		if r.Header.Get("Authorization") != "" || strings.Contains(string(r.Body), "one__") || r.Header.Get("Mcp-Session-Id") == c.Session && c.Session != "" {
			t.Errorf("%s: for %s the server was sent %s, %v", c.Revision, call.method, r.Body, r.Header)
		}
		if sent := string(r.Body); call.method == "tools/call" && !strings.Contains(sent, `"arguments":{"n":1.0e+00}`) {
			t.Errorf("%s: the server was sent %s", c.Revision, sent)
		}
		if modern := r.Header.Get("Mcp-Protocol-Version") == scripted.Modern; !modern && (r.Header.Get("Mcp-Method") != "" || r.Header.Get("Mcp-Name") != "" ||
			strings.Contains(string(r.Body), "io.modelcontextprotocol/")) {
			t.Errorf("%s: a legacy server was sent %s, %v", c.Revision, r.Body, r.Header)
		}
	}
}

// over starts a toolkit of one server of an era, before users.
func over(t *testing.T, revisions []string, options ...string) (*caddytest.World, *caddytest.Proxy) {
	t.Helper()
	w, m := caddytest.NewMember(t, "one", options...)
	w.SetRevisions(revisions...)
	return w, caddytest.StartProxy(t, forUsers(caddytest.ToolkitOf([]caddytest.Member{m})))
}

// modernUser returns a modern client of a user that sees the tools.
func modernUser(t *testing.T, p *caddytest.Proxy, name string) *fixture.Raw {
	t.Helper()
	c := fixture.NewModern(t, p.URL, user(name))
	caddytest.HasListed(t, c, scripted.ToolsList, 2)
	return c
}

// TestBridgeAnswers: a modern client is given what a legacy server answers as its revision has
// it, to its own request, and a legacy server that asks is answered.
func TestBridgeAnswers(t *testing.T) {
	w, p := over(t, legacyRevisions)
	c := modernUser(t, p, "ada")
	for name, tt := range map[string]struct {
		answer       func(x *scripted.Exchange)
		status, code int
	}{
		"an error":         {func(x *scripted.Exchange) { x.Error(200, -32000, "no") }, 200, -32000},
		"not found":        {func(x *scripted.Exchange) { x.Error(200, -32002, "no") }, 400, -32602},
		"unknown method":   {func(x *scripted.Exchange) { x.Error(200, -32601, "no") }, 404, -32601},
		"a bad request":    {func(x *scripted.Exchange) { x.Error(400, -32602, "no") }, 400, -32602},
		"an error and 404": {func(x *scripted.Exchange) { x.Error(404, -32000, "no") }, 200, -32000},
		"an error and 500": {func(x *scripted.Exchange) { x.Error(500, -32603, "no") }, 500, -32603},
		"nonsense":         {func(x *scripted.Exchange) { x.Raw(200, "application/json", "{") }, 502, -32603},
		"a page":           {func(x *scripted.Exchange) { x.Raw(500, "text/html", "<html>") }, 502, -32603},
		"nonsense and 400": {func(x *scripted.Exchange) { x.Raw(400, "application/json", `{"error":"no"}`) }, 502, -32603},
		"a stream of errors": {func(x *scripted.Exchange) {
			x.Event(strings.Replace(x.Envelope(`{"code":-32000,"message":"no"}`), "result", "error", 1))
		}, 200, -32000},
		"a stream of nothing": {func(x *scripted.Exchange) { x.Bytes(": hello\n\n") }, 200, -32603},
		"a compressed answer": {func(x *scripted.Exchange) {
			x.W.Header().Set("Content-Encoding", "br")
			x.Raw(200, "application/json", "x")
		}, 502, -32603},
		"no coding, said so": {func(x *scripted.Exchange) {
			x.W.Header().Set("Content-Encoding", "identity")
			x.Result(`{"content":[]}`)
		}, 200, 0},
	} {
		w.SetScript("tools/call", tt.answer)
		a := c.Call("tools/call", c.Params(`"name":"one__item-0000"`))
		if a.Status != tt.status || a.ErrorCode() != tt.code {
			t.Errorf("%s: got %s: %s", name, a, a.Body)
		}
		if tt.status == http.StatusBadGateway && !strings.Contains(string(a.Body), `\"one\"`) {
			t.Errorf("%s: the server is not named: %s", name, a.Body)
		}
	}
	asked := make(chan string, 2)
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		if strings.Contains(string(x.Params), "io.modelcontextprotocol") || string(x.ID) == `"mine"` {
			t.Errorf("the server was sent %s %s", x.ID, x.Params)
		}
		for _, method := range []string{"ping", "sampling/createMessage"} {
			m, _ := x.Ask(method, `{}`)
			asked <- string(m.Body)
		}
		x.Event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		x.Event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"low"}}`)
		x.Event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"high"}}`)
		x.Event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`)
		x.Event(x.Envelope(`{"content":[]}`))
	})
	params := strings.Replace(c.Params(`"name":"one__item-0000"`), `"_meta":{`, `"_meta":{"progressToken":"p","io.modelcontextprotocol/logLevel":"info",`, 1)
	a, err := c.Try(t.Context(), http.MethodPost, fixture.Message(`"mine"`, "tools/call", params), http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"one__item-0000"}})
	if err != nil {
		t.Fatal(err)
	}
	if pong, refused := <-asked, <-asked; !strings.Contains(pong, `"result":{}`) || !strings.Contains(refused, "-32601") {
		t.Errorf("the server that asks is answered %s and %s", pong, refused)
	}
	got := string(a.Body)
	if strings.Contains(got, "list_changed") || strings.Contains(got, "low") || strings.Contains(got, "ping") || !strings.Contains(got, "high") ||
		!strings.Contains(got, "notifications/progress") || !strings.Contains(got, `"id":"mine","result":{"resultType":"complete","content":[]}`) {
		t.Errorf("the client was sent %s", got)
	}
}

// TestBridgeToModern: a modern server is told who calls and what the tool's schema wants in
// headers, and what it refuses reaches a legacy client as an answer.
func TestBridgeToModern(t *testing.T) {
	w, m := caddytest.NewMember(t, "one")
	w.SetRevisions(scripted.Modern)
	w.SetList(scripted.ToolsList, scripted.Page{
		`{"name":"item-0000","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"}}}}`,
		`{"name":"item-0001","inputSchema":{"type":"object"}}`,
	})
	p := caddytest.StartProxy(t, forUsers(caddytest.ToolkitOf([]caddytest.Member{m})))
	c := fixture.NewLegacy(t, p.URL, "2025-11-25", user("ada"))
	caddytest.HasListed(t, c, scripted.ToolsList, 2)
	c.Call("logging/setLevel", `{"level":"warning"}`)
	if a := c.Call("tools/call", `{"name":"one__item-0000","arguments":{"region":"Zürich\r\nX-Evil: 1","n":12},"_meta":{"progressToken":"p"}}`); a.Status != http.StatusOK || a.ErrorCode() != 0 {
		t.Fatalf("a call gave %s: %s", a, a.Body)
	}
	all := clientsOf(w)
	r := all[len(all)-1]
	if got := r.Header.Get("Mcp-Param-Region"); got != "=?base64?"+base64.StdEncoding.EncodeToString([]byte("Zürich\r\nX-Evil: 1"))+"?=" || r.Header.Get("Mcp-Param-Count") != "12" {
		t.Errorf("the server was sent the header %v", r.Header)
	}
	var sent struct {
		Params struct {
			Meta map[string]any `json:"_meta"`
		}
	}
	if err := json.Unmarshal(r.Body, &sent); err != nil {
		t.Fatal(err)
	}
	meta := sent.Params.Meta
	if fmt.Sprint(meta["io.modelcontextprotocol/clientInfo"]) != "map[name:raw version:1]" || fmt.Sprint(meta["io.modelcontextprotocol/clientCapabilities"]) != "map[]" ||
		meta["io.modelcontextprotocol/logLevel"] != "warning" || meta["progressToken"] != "p" {
		t.Errorf("the server was told %v", meta)
	}
	for name, tt := range map[string]struct {
		answer       func(x *scripted.Exchange)
		status, code int
	}{
		"unknown":           {func(x *scripted.Exchange) { x.Error(400, -32602, "no") }, 200, -32602},
		"unknown method":    {func(x *scripted.Exchange) { x.Error(404, -32601, "no") }, 200, -32601},
		"capability":        {func(x *scripted.Exchange) { x.Error(400, -32021, "no") }, 200, -32021},
		"input":             {func(x *scripted.Exchange) { x.Result(`{"resultType":"input_required","inputRequests":{}}`) }, 200, -32603},
		"input in a stream": {func(x *scripted.Exchange) { x.Event(x.Envelope(`{"resultType":"input_required"}`)) }, 200, -32603},
		"an error and 503":  {func(x *scripted.Exchange) { x.Error(503, -32603, "no") }, 503, -32603},
		"a page":            {func(x *scripted.Exchange) { x.Raw(404, "text/html", "<html>") }, 502, -32603},
	} {
		w.SetScript("tools/call", tt.answer)
		if a := c.Call("tools/call", `{"name":"one__item-0001"}`); a.Status != tt.status || a.ErrorCode() != tt.code {
			t.Errorf("%s: got %s: %s", name, a, a.Body)
		}
	}
	wantHitOf(t, listedNow(t, c)) // the session has not ended
}

// TestBridgeBounds: an answer over the bridge that is larger than it may be is an error, and what
// it took of the memory is given back.
func TestBridgeBounds(t *testing.T) {
	w, m := caddytest.NewMember(t, "one")
	w.SetRevisions(legacyRevisions...)
	p := caddytest.StartProxy(t, forUsers(caddytest.ToolkitOf([]caddytest.Member{m}, "max_list 1MiB", "memory 16MiB")))
	c := modernUser(t, p, "ada")
	for _, size := range []int{900 << 10, 2 << 20} {
		for _, stream := range []bool{false, true} {
			w.SetScript("tools/call", func(x *scripted.Exchange) {
				if stream {
					x.Bytes(": first\n\n")
				}
				x.Result(`{"content":[],"text":"` + strings.Repeat("x", size) + `"}`)
			})
			for range 20 {
				a := c.Call("tools/call", c.Params(`"name":"one__item-0000"`))
				if size < 1<<20 && (a.Status != http.StatusOK || len(a.Part("result", "text")) != size+2) {
					t.Fatalf("%d bytes, in a stream %v: got %s", size, stream, a)
				}
				if size > 1<<20 && (a.ErrorCode() != -32603 || !strings.Contains(string(a.Body), "larger")) {
					t.Fatalf("%d bytes, in a stream %v: got %s", size, stream, a)
				}
			}
		}
	}
}

// TestBridgeInstructions: clients of both eras are told what servers of both say of themselves.
func TestBridgeInstructions(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	two, second := caddytest.NewMember(t, "two")
	one.SetRevisions(legacyRevisions...)
	two.SetRevisions(scripted.Modern)
	one.SetScript("initialize", func(x *scripted.Exchange) {
		if !strings.Contains(string(x.Params), "2025-11-25") {
			x.Default()
			return
		}
		x.Result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"Old."}`)
	})
	one.SetSessions(false)
	two.SetScript("server/discover", func(x *scripted.Exchange) {
		x.Result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"New.",` + scripted.PublicHour + `}`)
	})
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	c := fixture.NewModern(t, p.URL, "")
	var a *fixture.Answer
	fixture.Await(t, "a hit", func() bool {
		a = c.List("server/discover")
		return a.CacheStatus().Hit && a.CacheStatus().Detail == ""
	})
	const want = `"# one\n\nOld.\n\n# two\n\nNew."`
	if got := string(a.Part("result", "instructions")); got != want {
		t.Errorf("discover says %s", got)
	}
	l := fixture.NewLegacy(t, p.URL, "2025-06-18", "")
	if got := string(l.Initialized.Part("result", "instructions")); got != want {
		t.Errorf("initialize says %s", got)
	}
}

// TestBridgeFollowsTheServer: a server that takes up another era, or gives one up, is used in
// what it speaks.
func TestBridgeFollowsTheServer(t *testing.T) {
	w, p := over(t, []string{scripted.Modern}, "ttl 1s")
	old, recent := fixture.NewLegacy(t, p.URL, "2025-11-25", user("ada")), modernUser(t, p, "ada")
	caddytest.HasListed(t, old, scripted.ToolsList, 2)
	speaks := func(c *fixture.Raw, revision string) {
		t.Helper()
		fixture.Await(t, revision+" to be spoken with a client of "+c.Revision, func() bool {
			members := `"name":"one__item-0000"`
			a := c.Call("tools/call", c.Params(members))
			all := clientsOf(w)
			return a.Status == http.StatusOK && a.ErrorCode() == 0 && all[len(all)-1].Header.Get("Mcp-Protocol-Version") == revision
		})
	}
	speaks(old, scripted.Modern)
	w.SetRevisions(append(legacyRevisions, scripted.Modern)...)
	speaks(old, "2025-11-25")
	speaks(recent, scripted.Modern)
	// Its lists are fresh for an hour: what it answers to a call shows that it has changed.
	w.SetRevisions(legacyRevisions...)
	speaks(recent, "2025-11-25")
	caddytest.HasListed(t, recent, scripted.ToolsList, 2)
}

// TestBridgeKeepsLastLists: a server that answers in no era any more, as when it is rolled out anew, has not
// lost its lists. Clients of both eras are given its last ones, or are told that they are missing.
func TestBridgeKeepsLastLists(t *testing.T) {
	gone := func(*http.Request) int { return http.StatusNotFound }
	for name, c := range map[string]struct {
		stale, detail string
		before, after int // tools
	}{"kept": {"1h", "stale", 2, 2}, "missing": {"0", "partial", 2, 0}, "never there": {"1h", "partial", 0, 0}} {
		t.Run(name, func(t *testing.T) {
			w, m := caddytest.NewMember(t, "one", "ttl 1s", "stale_if_error "+c.stale)
			w.SetRevisions(legacyRevisions...)
			if c.before == 0 {
				w.SetDoor(gone)
			}
			p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}))
			clients := []*fixture.Raw{fixture.NewLegacy(t, p.URL, "2025-11-25", ""), fixture.NewModern(t, p.URL, "")}
			for _, client := range clients {
				if c.before > 0 {
					caddytest.HasListed(t, client, scripted.ToolsList, c.before)
				}
			}
			w.SetDoor(gone)
			w.ForgetSessions()
			fixture.Await(t, "no feed to be answered in its era", func() bool {
				var s caddytest.Status
				_, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache/one", nil)
				return json.Unmarshal(body, &s) == nil && maps.Equal(s.States(), map[string]string{"legacy": "unsupported", "modern": "unsupported"})
			})
			for _, client := range clients {
				a := client.AwaitList(scripted.ToolsList, "a list that says how it is", func(a *fixture.Answer) bool { return a.CacheStatus().Detail == c.detail })
				if n := len(a.Items("tools")); n != c.after {
					t.Errorf("a client of %s is given %d tools: %s", client.Revision, n, a)
				}
			}
		})
	}
}

// TestBridgeBrokenOff: an answer that a server breaks off is an error that names the server.
func TestBridgeBrokenOff(t *testing.T) {
	for name, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}} {
		t.Run(name, func(t *testing.T) {
			w, p := over(t, revisions)
			var c *fixture.Raw
			if name == "legacy" {
				c = modernUser(t, p, "ada")
			} else {
				c = fixture.NewLegacy(t, p.URL, "2025-11-25", user("ada"))
				caddytest.HasListed(t, c, scripted.ToolsList, 2)
			}
			for _, stream := range []bool{false, true} {
				w.SetScript("tools/call", func(x *scripted.Exchange) {
					if stream {
						x.Event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`)
						panic(http.ErrAbortHandler)
					}
					scripted.HalfBody(x)
				})
				want := http.StatusBadGateway
				if stream {
					want = http.StatusOK // which had been sent
				}
				a := c.Call("tools/call", c.Params(`"name":"one__item-0000"`))
				if a.Status != want || a.ErrorCode() != -32603 || !strings.Contains(string(a.Message()), `\"one\"`) || string(a.Part("id")) == "" {
					t.Errorf("in a stream %v: got %s: %s", stream, a, a.Body)
				}
			}
		})
	}
}
