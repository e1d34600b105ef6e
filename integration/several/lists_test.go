package several

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// listedNow lists tools. A server that takes its time has its last list given, marked stale:
// then it is listed again.
func listedNow(t testing.TB, c *fixture.Raw) (a *fixture.Answer) {
	t.Helper()
	fixture.Await(t, "a list that is not stale", func() bool {
		a = c.List(scripted.ToolsList)
		return a.CacheStatus().Detail == ""
	})
	return a
}

// TestToolkitLists has two servers behind one endpoint: their items are in one list, in
// order, with nothing changed but the names of tools and prompts.
func TestToolkitLists(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	odd := `{"title":"né\u00e9","big":12345678901234567890.120, "inner":{"name":"n"},"name" : "o\u0064d","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}},"_meta":{"x":[1e400]}}`
	one.SetList(scripted.ToolsList, scripted.Page{odd}, caddytest.OwnItems(scripted.ToolsList, "one"))
	two, second := caddytest.NewMember(t, "two", "prefix t.")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	c := fixture.NewModern(t, p.URL, "")

	renamed := func(items scripted.Page, prefix string) (all []string) {
		for _, item := range items {
			all = append(all, strings.Replace(item, `"name":"item`, `"name":"`+prefix+`item`, 1))
		}
		return all
	}
	for method, want := range map[string][]string{
		scripted.ToolsList: slices.Concat([]string{strings.Replace(odd, `"o\u0064d"`, `"one__o\u0064d"`, 1)},
			renamed(caddytest.OwnItems(scripted.ToolsList, "one"), "one__"), renamed(caddytest.OwnItems(scripted.ToolsList, "two"), "t.")),
		scripted.PromptsList:   slices.Concat(renamed(caddytest.OwnItems(scripted.PromptsList, "one"), "one__"), renamed(caddytest.OwnItems(scripted.PromptsList, "two"), "t.")),
		scripted.ResourcesList: slices.Concat(caddytest.OwnItems(scripted.ResourcesList, "one"), caddytest.OwnItems(scripted.ResourcesList, "two")),
		scripted.TemplatesList: slices.Concat(caddytest.OwnItems(scripted.TemplatesList, "one"), caddytest.OwnItems(scripted.TemplatesList, "two")),
	} {
		a := caddytest.HasListed(t, c, method, len(want))
		if got := a.Items(scripted.ItemsKey(method)); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", method, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if scope := string(a.Part("result", "cacheScope")); scope != `"public"` {
			t.Errorf("%s is %s", method, scope)
		}
		ttl := string(a.Part("result", "ttlMs"))
		if len(ttl) != len("3600000") || string(a.Part("result", "resultType")) != `"complete"` {
			t.Errorf("%s: ttlMs is %s: %s", method, ttl, a.Body)
		}
	}
	// Hits ask nobody, and a refresh that changes nothing changes no byte.
	caddytest.AwaitReady(t, "mcp_cache/one") // the feeds of the other era, too
	caddytest.AwaitReady(t, "mcp_cache/two")
	asked := one.Host.Count(scripted.ToolsList) + two.Host.Count(scripted.ToolsList)
	items := c.List(scripted.ToolsList).Part("result", "tools")
	for range 10 {
		wantHitOf(t, c.List(scripted.ToolsList))
	}
	if again := one.Host.Count(scripted.ToolsList) + two.Host.Count(scripted.ToolsList); again != asked {
		t.Errorf("ten hits asked the servers %d times", again-asked)
	}
	caddytest.RefreshNow(t, "tools")
	if again := one.Host.CountFeed(scripted.ToolsList); again < 2 {
		t.Errorf("a refresh of the toolkit asked %d times in all", again)
	}
	if a := c.List(scripted.ToolsList); !bytes.Equal(a.Part("result", "tools"), items) {
		t.Errorf("the list has changed: %s", a.Body)
	}
}

func wantHitOf(t testing.TB, a *fixture.Answer) {
	t.Helper()
	if !a.CacheStatus().Hit {
		t.Errorf("no hit: %s", a)
	}
}

// TestToolkitDiscover: what the toolkit says of itself is one answer, and tells of every
// server.
func TestToolkitDiscover(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	one.SetScript("server/discover", func(x *scripted.Exchange) {
		x.Result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},` +
			`"instructions":"Ask \"one\" first.",` + scripted.PublicHour + `}`)
	})
	_, second := caddytest.NewMember(t, "two")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}, "name all"))
	c := fixture.NewModern(t, p.URL, "")
	var a *fixture.Answer
	fixture.Await(t, "a hit", func() bool {
		a = c.List("server/discover")
		return a.CacheStatus().Hit && a.CacheStatus().Detail == ""
	})
	var said struct {
		SupportedVersions []string
		Capabilities      map[string]struct{ ListChanged bool }
		Instructions      string
		Meta              map[string]struct{ Name string } `json:"_meta"`
	}
	if err := json.Unmarshal(a.Part("result"), &said); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(said.SupportedVersions, []string{scripted.Modern}) || said.Instructions != "# one\n\nAsk \"one\" first." ||
		said.Meta["io.modelcontextprotocol/serverInfo"].Name != "all" {
		t.Errorf("discover says %s", a.Body)
	}
	for _, capability := range []string{"tools", "prompts", "resources", "completions", "logging"} {
		if c, has := said.Capabilities[capability]; !has || c.ListChanged != (capability != "completions" && capability != "logging") {
			t.Errorf("capability %s: %v, announces changes %v", capability, has, c.ListChanged)
		}
	}
}

// TestToolkitDiscoverOfLegacy: what servers with sessions have said of themselves is fresh for a
// minute, as nothing says for how long it is.
func TestToolkitDiscoverOfLegacy(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	one.SetRevisions(legacyRevisions...)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	c := fixture.NewModern(t, p.URL, "")
	var a *fixture.Answer
	fixture.Await(t, "a hit", func() bool {
		a = c.List("server/discover")
		return a.CacheStatus().Hit && a.CacheStatus().Detail == ""
	})
	for _, a := range []*fixture.Answer{a, c.List("server/discover")} { // of which one has been there for a while
		if ttl := string(a.Part("result", "ttlMs")); ttl != "60000" {
			t.Errorf("it is fresh for %s ms", ttl)
		}
	}
}

// TestToolkitRoutes: each request reaches the one server that it is for, by the name that
// the server knows, with nothing of the caller's.
func TestToolkitRoutes(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	two, second := caddytest.NewMember(t, "two", "prefix t_")
	for _, w := range []*caddytest.World{one, two} {
		for _, method := range []string{"prompts/get", "resources/read", "completion/complete"} {
			w.SetScript(method, func(x *scripted.Exchange) {
				x.Result(`{"resultType":"complete","messages":[],"contents":[],"completion":{"values":[]}}`)
			})
		}
	}
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	c := fixture.NewModern(t, p.URL+"?token=canary-query", "Bearer canary-token")
	for name, value := range map[string]string{
		"Cookie": "canary-cookie", "X-Api-Key": "canary-key", "Mcp-Session-Id": "canary-session", "Origin": "http://" + p.Addr,
		"X-Unknown": "canary-unknown", "X-Forwarded-User": "canary-user", "Baggage": "tenant=canary-baggage",
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Mcp-Param-Region": "eu",
		"Connection": "Tracestate", "Tracestate": "canary-hop", // for the next hop only, which is the toolkit
	} {
		c.Header.Set(name, value)
	}
	caddytest.HasListed(t, c, scripted.ToolsList, 4)
	for _, call := range []struct {
		method, params string
		to             *caddytest.World
		body, name     string // that the server is sent
	}{
		{"tools/call", `"name":"one__item-0000","arguments":{"name":"one__item-0001","n":1.0e+00}`, one, `"name":"item-0000","arguments":{"name":"one__item-0001","n":1.0e+00}`, "item-0000"},
		{"tools/call", `"arguments":{},"name":"t_item\u002d0001"`, two, `"arguments":{},"name":"item-0001"`, "item-0001"},
		{"prompts/get", `"name":"t_item-0000"`, two, `"name":"item-0000"`, "item-0000"},
		{"resources/read", `"uri":"two://item-0001"`, two, `"uri":"two://item-0001"`, "two://item-0001"},
		{"resources/read", `"uri":"one://item-0001/of-a-template"`, one, `"uri":"one://item-0001/of-a-template"`, "one://item-0001/of-a-template"},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"t_item-0001"},"argument":{"name":"a","value":"v"}`, two, `"ref":{"type":"ref/prompt","name":"item-0001"},"argument":{"name":"a","value":"v"}`, ""},
		{"completion/complete", `"ref":{"type":"ref/resource","uri":"one://item-0001/{x}"},"argument":{"name":"a","value":"v"}`, one, `"uri":"one://item-0001/{x}"`, ""},
	} {
		one.Host.Forget()
		two.Host.Forget()
		a := c.Call(call.method, c.Params(call.params))
		if a.Status != http.StatusOK || a.ErrorCode() != 0 {
			t.Errorf("%s %s gave %s", call.method, call.params, a)
			continue
		}
		if status := a.Header.Get("Cache-Status"); status != "mcp_cache; fwd=bypass; detail=routed" {
			t.Errorf("%s: Cache-Status is %s", call.method, status)
		}
		got := slices.Concat(clientsOf(one), clientsOf(two))
		if len(got) != 1 || len(clientsOf(call.to)) != 1 {
			t.Errorf("%s %s: %d requests, %d to its server", call.method, call.params, len(got), len(clientsOf(call.to)))
			continue
		}
		r := got[0]
		if !strings.Contains(string(r.Body), call.body) || r.Header.Get("Mcp-Name") != call.name {
			t.Errorf("%s: the server was sent %s, Mcp-Name %q", call.method, r.Body, r.Header.Get("Mcp-Name"))
		}
		if r.Header.Get("Traceparent") == "" || r.Header.Get("Mcp-Param-Region") != "eu" || r.Header.Get("Mcp-Method") != call.method {
			t.Errorf("%s: the server was sent the header %v", call.method, r.Header)
		}
		for name, values := range r.Header {
			if text := strings.Join(values, " "); strings.Contains(text, "canary") || name == "Origin" {
				t.Errorf("%s: the server was sent %s: %s", call.method, name, text)
			}
		}
		if strings.Contains(r.URL, "?") {
			t.Errorf("%s: the server was sent %s", call.method, r.URL)
		}
	}
	// What nobody lists.
	for _, call := range []struct {
		method, params string
		status, code   int
		to             *caddytest.World
	}{
		{"tools/call", `"name":"one__new"`, 400, -32602, one}, // the server has the last word
		{"tools/call", `"name":"three__x"`, 400, -32602, nil},
		{"prompts/get", `"name":"item-0000"`, 400, -32602, nil},
		{"resources/read", `"uri":"three://x"`, 400, -32602, nil},
		{"tools/call", `"name":"one__item-0000","name":"t_item-0000"`, 400, -32600, nil},
		{"tools/call", `"name":["one__item-0000"]`, 400, -32700, nil},
		{"tools/call", `"arguments":{}`, 400, -32602, nil},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"one__item-0000","uri":"two://item-0000/{x}"}`, 400, -32602, nil},
	} {
		one.Host.Forget()
		two.Host.Forget()
		a := c.Call(call.method, c.Params(call.params))
		if a.Status != call.status || a.ErrorCode() != call.code {
			t.Errorf("%s %s gave %s", call.method, call.params, a)
		}
		asked := len(clientsOf(one)) + len(clientsOf(two))
		if call.to == nil && asked != 0 || call.to != nil && (asked != 1 || len(clientsOf(call.to)) != 1) {
			t.Errorf("%s %s: %d requests reached a server", call.method, call.params, asked)
		}
	}
}

// clientsOf returns the requests of clients that have reached a server.
func clientsOf(w *caddytest.World) []fixture.Request {
	return w.Host.Requests(func(r *fixture.Request) bool { return !r.Feed })
}

// TestToolkitRefuses: what is not valid in the modern era is refused in its words.
func TestToolkitRefuses(t *testing.T) {
	_, first := caddytest.NewMember(t, "one")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}, "max_request 1KiB", "max_call 4KiB", "origins https://app.example"))
	c := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 2)
	list := func(change func(h http.Header)) *fixture.Answer {
		h := http.Header{"Mcp-Method": {scripted.ToolsList}, "Mcp-Protocol-Version": {scripted.Modern}}
		change(h)
		return c.Post(fixture.Message("1", scripted.ToolsList, c.Params("")), h)
	}
	for name, tt := range map[string]struct {
		got          *fixture.Answer
		status, code int
		says         string
	}{
		"a later revision":   {c.Post(fixture.Message("1", scripted.ToolsList, `{}`), http.Header{"Mcp-Protocol-Version": {"2027-01-01"}}), 400, -32022, `"supported":["2025-03-26","2025-06-18","2025-11-25","2026-07-28"]`},
		"no _meta":           {c.Post(fixture.Message("1", scripted.ToolsList, `{}`), nil), 400, -32602, "protocolVersion"},
		"another version":    {list(func(h http.Header) { h.Set("Mcp-Protocol-Version", "2025-11-25") }), 400, -32020, "MCP-Protocol-Version"},
		"another method":     {list(func(h http.Header) { h.Set("Mcp-Method", scripted.PromptsList) }), 400, -32020, "Mcp-Method"},
		"a foreign page":     {list(func(h http.Header) { h.Set("Origin", "https://evil.example") }), 403, -32600, ""},
		"a cursor":           {c.Call(scripted.ToolsList, c.Params(`"cursor":"x"`)), 400, -32602, "cursor"},
		"no name":            {c.Post(fixture.Message("1", "tools/call", c.Params(`"name":"one__item-0000"`)), http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Protocol-Version": {scripted.Modern}}), 400, -32020, "Mcp-Name"},
		"an unknown method":  {c.Call("tools/run", c.Params("")), 404, -32601, "not found"},
		"a batch":            {c.Post("["+fixture.Message("1", scripted.ToolsList, c.Params(""))+"]", nil), 400, -32600, "batches"},
		"no JSON":            {c.Post("{", nil), 400, -32700, ""},
		"too large":          {c.Call("tools/call", c.Params(`"name":"one__item-0000","arguments":{"x":"`+strings.Repeat("x", 5000)+`"}`)), 413, -32600, "max_call"},
		"large":              {c.Call("tools/call", c.Params(`"name":"one__item-0000","arguments":{"x":"`+strings.Repeat("x", 3000)+`"}`)), 200, 0, "called item-0000"},
		"a page that is let": {list(func(h http.Header) { h.Set("Origin", "https://app.example") }), 200, 0, ""},
	} {
		if tt.got.Status != tt.status || tt.got.ErrorCode() != tt.code || !strings.Contains(string(tt.got.Body), tt.says) {
			t.Errorf("%s gave %s: %s", name, tt.got, tt.got.Body)
		}
		if allowed := tt.got.Header.Get("Access-Control-Allow-Origin"); (name == "a page that is let") != (allowed == "https://app.example") {
			t.Errorf("%s lets pages of %q read it", name, allowed)
		}
	}
	if a := c.Notify("notifications/cancelled", c.Params(`"requestId":1`)); a.Status != http.StatusAccepted {
		t.Errorf("a notification gave %s", a)
	}
}

// TestToolkitOfSickServers: what is wrong with one server harms its own items only.
func TestToolkitOfSickServers(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	dead := fixture.NewDownHost(t, http.NotFoundHandler())
	release := make(chan struct{})
	hole := fixture.NewHost(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(release) })
	answering := func(status int) *fixture.Host {
		return fixture.NewHost(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", status) }))
	}
	legacy, last := caddytest.NewMember(t, "legacy")
	legacy.SetRevisions(scripted.LatestLegacy)
	two, second := caddytest.NewMember(t, "two")
	two.SetHints(`"ttlMs":0,"cacheScope":"public"`)
	members := []caddytest.Member{
		first, {Name: "dead", URL: dead.URL}, {Name: "hole", URL: hole.URL}, {Name: "broken", URL: answering(500).URL}, {Name: "closed", URL: answering(401).URL}, last, second,
	}
	p := caddytest.StartProxy(t, caddytest.ToolkitOf(members, "gate 100ms"))
	c := fixture.NewModern(t, p.URL, "")
	fixture.Await(t, "the tools of the healthy servers", func() bool {
		a := c.List(scripted.ToolsList)
		return a.Status == http.StatusOK && len(a.Items("tools")) == 6
	})
	// One of them is asked each time, the others never.
	caddytest.AwaitReady(t, "mcp_cache/one") // the feeds of the other era, too
	caddytest.AwaitReady(t, "mcp_cache/two")
	asked, again := one.Host.Count(scripted.ToolsList), two.Host.Count(scripted.ToolsList)
	for range 5 {
		a := c.List(scripted.ToolsList)
		if len(a.Items("tools")) != 6 || string(a.Part("result", "ttlMs")) != "0" || !strings.Contains(a.CacheStatus().Raw, "detail=partial") {
			t.Errorf("a list gave %s: %s", a, a.Body)
		}
	}
	if n, m := one.Host.Count(scripted.ToolsList)-asked, two.Host.Count(scripted.ToolsList)-again; n != 0 || m < 1 || m > 5 {
		t.Errorf("five lists asked the one server %d times, and that whose lists are never fresh %d times", n, m)
	}
	for _, name := range []string{"one", "legacy", "two"} {
		if a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":"%s__item-0000"`, name))); a.Status != http.StatusOK || a.ErrorCode() != 0 {
			t.Errorf("a call of %s gave %s", name, a)
		}
	}
	for _, name := range []string{"dead", "hole", "broken", "closed"} {
		a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":"%s__x"`, name)))
		if a.Status != http.StatusServiceUnavailable || a.ErrorCode() != -32603 || !strings.Contains(string(a.Body), name) {
			t.Errorf("a call of %s gave %s: %s", name, a, a.Body)
		}
	}
	// A client with sessions is answered while the hole holds the feed's requests.
	l := fixture.NewLegacy(t, p.URL, scripted.LatestLegacy, "")
	fixture.Await(t, "the tools of three servers", func() bool { return len(l.List(scripted.ToolsList).Items("tools")) == 6 })
	for name, want := range map[string]int{"one": 200, "legacy": 200, "two": 200, "dead": 503, "hole": 503, "broken": 503, "closed": 503} {
		if a := l.Call("tools/call", fmt.Sprintf(`{"name":"%s__item-0000"}`, name)); a.Status != want || want == 503 && !strings.Contains(string(a.Body), name) {
			t.Errorf("a call of %s in a session gave %s: %s", name, a, a.Body)
		}
	}
	// A URI that nobody lists may be of a server that has not been reached.
	one.SetContents("other://x", `"text":"x"`)
	if a := c.Call("resources/read", c.Params(`"uri":"other://x"`)); a.Status != http.StatusServiceUnavailable || a.ErrorCode() != -32603 {
		t.Errorf("a read of a URI that nobody lists gave %s", a)
	}
	var status struct {
		Servers []struct {
			Name    string
			LeftOut string `json:"left_out"`
		}
	}
	fixture.Await(t, "the reasons", func() bool {
		caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &status)
		return len(status.Servers) == len(members) && strings.Contains(status.Servers[1].LeftOut, "not been reached")
	})
	for i, want := range []bool{false, true, true, true, true, false, false} {
		if got := status.Servers[i]; (got.LeftOut != "") != want || got.Name != "mcp_cache/"+members[i].Name {
			t.Errorf("status says %+v", got)
		}
	}
	// A server that dies later leaves its last list behind.
	one.Host.Kill()
	caddytest.RefreshNow(t, "tools")
	if a := c.List(scripted.ToolsList); len(a.Items("tools")) != 6 {
		t.Errorf("without a server, the list is %s", a.Body)
	}
	a := c.Call("tools/call", c.Params(`"name":"one__item-0000"`))
	if a.Status != http.StatusBadGateway || a.ErrorCode() != -32603 || !strings.Contains(string(a.Body), "one") {
		t.Errorf("a call of a server that has died gave %s: %s", a, a.Body)
	}
}

// TestToolkitWithoutItsServer: the list of a server that has died is given, marked stale.
func TestToolkitWithoutItsServer(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	one.SetHints(scripted.PublicBrief)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	c := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 2)
	one.Host.Kill()
	fixture.Await(t, "a stale list", func() bool {
		a := c.List(scripted.ToolsList)
		if len(a.Items("tools")) != 2 {
			t.Fatalf("a list gave %s: %s", a, a.Body)
		}
		return a.CacheStatus().Hit && a.CacheStatus().Detail == "stale" && a.CacheStatus().TTL < 0 && string(a.Part("result", "ttlMs")) == "0"
	})
	fixture.Await(t, "the outcome", func() bool { return caddytest.OutcomeCounts(t)["stale"] > 0 })
}

// TestToolkitConflicts: of two items of one name the first counts, a name that is too long is
// shortened, and operators are told.
func TestToolkitConflicts(t *testing.T) {
	long := strings.Repeat("n", 40)
	one, first := caddytest.NewMember(t, "one", "prefix off")
	one.SetList(scripted.ToolsList, scripted.Page{`{"name":"same","description":"one","inputSchema":{"type":"object"}}`})
	two, second := caddytest.NewMember(t, "two", "prefix off")
	two.SetList(scripted.ToolsList, scripted.Page{`{"name":"same","description":"two","inputSchema":{"type":"object"}}`, `{"name":"` + strings.Repeat("m", 50) + `","inputSchema":{"type":"object"}}`})
	two.SetList(scripted.PromptsList, scripted.Page{})
	three, third := caddytest.NewMember(t, "three")
	three.SetList(scripted.ToolsList, scripted.Page{`{"name":"` + long + `","inputSchema":{"type":"object"}}`})
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second, third}, "name_limit 40"))
	c := fixture.NewModern(t, p.URL, "")
	a := caddytest.HasListed(t, c, scripted.ToolsList, 3)
	var shown []string
	for _, item := range a.Items("tools") {
		var tool struct{ Name, Description string }
		if err := json.Unmarshal([]byte(item), &tool); err != nil {
			t.Fatal(err)
		}
		shown = append(shown, tool.Name)
		if tool.Name == "same" && tool.Description != "one" {
			t.Errorf("of two tools the one of server %s is listed", tool.Description)
		}
	}
	if len(shown[2]) != 40 || !strings.HasPrefix(shown[2], "three__nnn") {
		t.Errorf("a long name is shown as %s", shown[2])
	}
	for name, to := range map[string]*caddytest.World{"same": one, shown[1]: two, shown[2]: three} {
		for _, w := range []*caddytest.World{one, two, three} {
			w.Host.Forget()
		}
		if a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q`, name))); a.Status != http.StatusOK || len(clientsOf(to)) != 1 {
			t.Errorf("a call of %s gave %s, and its server got %d", name, a, len(clientsOf(to)))
		}
	}
	var status struct {
		Conflicts []struct{ Kind, Server, Item, Why string }
	}
	for _, m := range []caddytest.Member{first, second, third} {
		caddytest.AwaitReady(t, "mcp_cache/"+m.Name) // the feeds of the other era, too
	}
	caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &status)
	if n := len(status.Conflicts); n != 2 || status.Conflicts[0].Item != "same" || status.Conflicts[0].Server != "two" ||
		!strings.Contains(status.Conflicts[0].Why, "left out, as one has one of that name") || !strings.Contains(status.Conflicts[1].Why, "longer than name_limit (40)") {
		t.Errorf("status has the conflicts %+v", status.Conflicts)
	}
	if n := caddytest.Scrape(t)[`conflicts{handler="mcp_cache",kind="tools"}`]; n != 2 {
		t.Errorf("the metric says %v", n)
	}
	const said = "clients are not given all that the servers list"
	n := strings.Count(p.Log(), said)
	for range 3 {
		c.List(scripted.ToolsList)
	}
	if again := strings.Count(p.Log(), said); n < 1 || again != n {
		t.Errorf("the log says it %d times, and after three lists %d times", n, again)
	}
	two.SetList(scripted.ToolsList, scripted.Page{`{"name":"other","inputSchema":{"type":"object"}}`})
	caddytest.RefreshNow(t, "tools")
	caddytest.HasListed(t, c, scripted.ToolsList, 3)
	fixture.Await(t, "the end of it in the log", func() bool { return strings.Contains(p.Log(), "nothing is left out of a list any more") })
	_, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/", nil)
	caddytest.WantSchema(t, body)
}

// TestToolkitNotices: a list is never answered with what a server has said is old.
func TestToolkitNotices(t *testing.T) {
	one, first := caddytest.NewMember(t, "one", "refresh 1ms")
	_, second := caddytest.NewMember(t, "two")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	c := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 4)
	fixture.Await(t, "the feed's stream", func() bool {
		return one.Streams(func(s scripted.StreamInfo) bool { return s.Feed && s.Modern }) > 0
	})
	for round := range 50 {
		before := changesOf(t, "mcp_cache/one")
		one.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, fmt.Sprint("round ", round), 1+round%3))
		one.Changed(scripted.Feeds, scripted.ToolsList)
		fixture.Await(t, "the notice", func() bool { return changesOf(t, "mcp_cache/one") > before })
		if a := listedNow(t, c); !strings.Contains(string(a.Body), fmt.Sprintf(`"round %d"`, round)) {
			t.Fatalf("after notice %d the list is old: %s", round, a.Body)
		}
	}
}

// changesOf counts the changes of tools that a server's feeds have been told of.
func changesOf(t testing.TB, handler string) float64 {
	t.Helper()
	return caddytest.Scrape(t)[`changes_total{handler="`+handler+`",kind="tools",source="feed"}`]
}
