package several

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

const toolsChanged = "notifications/tools/list_changed"

// listener returns a client of a toolkit that listens and sees n tools.
func listener(t testing.TB, p *caddytest.Proxy, revision string, n int) (*fixture.Raw, *fixture.Stream) {
	t.Helper()
	c := fixture.New(t, p.URL, revision, "")
	caddytest.HasListed(t, c, scripted.ToolsList, n)
	return c, c.Notices()
}

// hears reads the next notice of a stream and wants it to be that one.
func hears(t testing.TB, s *fixture.Stream, method string) fixture.Event {
	t.Helper()
	e, ok := s.Next()
	if !ok || !strings.Contains(e.Data, `"`+method+`"`) {
		t.Errorf("instead of %s came %q, %v", method, e.Data, ok)
	}
	return e
}

// TestToolkitTells: whoever listens, by any revision, is told of a change when the new list is
// there, and is given that one from then on, from memory.
func TestToolkitTells(t *testing.T) {
	one, first := caddytest.NewMember(t, "one", "refresh 1ms")
	_, second := caddytest.NewMember(t, "two")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	type client struct {
		*fixture.Raw
		*fixture.Stream
	}
	var clients []client
	for _, revision := range append(legacyRevisions, scripted.Modern) {
		c, s := listener(t, p, revision, 4)
		clients = append(clients, client{c, s})
	}
	fixture.Await(t, "the feeds' streams", func() bool { return one.Streams(scripted.Feeds) == 2 })
	hits, rounds := 0, caddytest.Pick(50, 200)
	for round := range rounds {
		one.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, fmt.Sprintf("round %d.", round), 2))
		one.Changed(scripted.Feeds, scripted.ToolsList)
		for _, c := range clients {
			c.Await(toolsChanged)
			a := c.List(scripted.ToolsList)
			if !strings.Contains(string(a.Body), fmt.Sprintf("round %d.", round)) {
				t.Fatalf("%s: after notice %d the list is old: %s", c.Revision, round, a.Body)
			}
			if a.CacheStatus().Hit {
				hits++
			}
		}
	}
	if hits < rounds*len(clients)*9/10 {
		t.Errorf("of %d lists, %d came from memory", rounds*len(clients), hits)
	}
}

// TestToolkitTellsInTheirWords: a stream is as its revision has it, and has nothing that was
// not asked for.
func TestToolkitTellsInTheirWords(t *testing.T) {
	one, first := caddytest.NewMember(t, "one", "refresh 1ms")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	modern := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, modern, scripted.ToolsList, 2)
	fixture.Await(t, "the feeds' streams", func() bool { return one.Streams(scripted.Feeds) == 2 })
	for _, c := range []struct{ filter, granted string }{
		{`{}`, `{}`}, {`{"promptsListChanged":false,"toolslistchanged":true,"x":1,"resourceSubscriptions":["a://b"]}`, `{}`},
		{`{"toolsListChanged":true}`, `{"toolsListChanged":true}`},
	} {
		params := modern.Params(`"notifications":` + c.filter)
		s := modern.Stream(http.MethodPost, fixture.Message(`"a\u0062"`, "subscriptions/listen", params), http.Header{"Mcp-Method": {"subscriptions/listen"}})
		want := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"a\u0062"},"notifications":` + c.granted + `}}`
		if e, _ := s.Next(); e.Data != want || e.ID != "" {
			t.Errorf("%s is acknowledged by %s", c.filter, e.Data)
		}
		if c.granted != "{}" {
			for _, method := range scripted.ListMethods() {
				one.SetList(method, scripted.Items(method, "new", 1))
				one.Changed(scripted.Feeds, method)
			}
			want := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"a\u0062"}}}`
			if e, _ := s.Next(); e.Data != want || e.ID != "" {
				t.Errorf("a change of tools is announced by %s", e.Data)
			}
			p.Reload("respond gone 410")
		}
		want = `{"jsonrpc":"2.0","id":"a\u0062","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"a\u0062"}}}`
		if e, _ := s.Next(); e.Data != want {
			t.Errorf("%s ends with %s", c.filter, e.Data)
		}
		s.AwaitEnd()
	}
}

// TestToolkitTellsOfChangesAlone: nobody is told of what is no change, or is not there yet.
func TestToolkitTellsOfChangesAlone(t *testing.T) {
	one, first := caddytest.NewMember(t, "one", "refresh 1ms")
	two, second := caddytest.NewMember(t, "two", "refresh 1ms")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	_, modern := listener(t, p, scripted.Modern, 4)
	c, legacy := listener(t, p, scripted.LatestLegacy, 4)
	fixture.Await(t, "the feeds' streams", func() bool { return one.Streams(scripted.Feeds) == 2 && two.Streams(scripted.Feeds) == 2 })
	wantPrompts := func(why, name string) {
		t.Helper()
		two.SetList(scripted.PromptsList, scripted.Items(scripted.PromptsList, name, 1))
		two.Changed(scripted.Feeds, scripted.PromptsList)
		for _, s := range []*fixture.Stream{modern, legacy} {
			if e := hears(t, s, "notifications/prompts/list_changed"); t.Failed() {
				t.Fatalf("%s, %s was told", why, e.Data)
			}
		}
	}
	before := one.Host.CountFeed(scripted.ToolsList)
	one.Changed(scripted.Feeds, scripted.ToolsList)
	fixture.Await(t, "the feeds to look", func() bool { return one.Host.CountFeed(scripted.ToolsList) >= before+2 })
	wantPrompts("after a notice of no change", "a")

	release := make(chan struct{})
	hanging := scripted.Hang(release)
	one.SetScript(scripted.ToolsList, func(x *scripted.Exchange) { hanging(x); x.Default() })
	one.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "late", 1))
	one.Changed(scripted.Feeds, scripted.ToolsList)
	fixture.Await(t, "the feeds to ask", func() bool { return one.Host.CountFeed(scripted.ToolsList) >= before+3 })
	wantPrompts("while the server hangs", "b")
	close(release)
	for _, s := range []*fixture.Stream{modern, legacy} {
		hears(t, s, toolsChanged)
	}
	caddytest.HasListed(t, c, scripted.ToolsList, 3)
}

// TestToolkitTellsFirst: what a server says of its lists in the answer to a call does not reach
// the client, that it has changed does once the list is there, and all else of the answer
// comes as it is.
func TestToolkitTellsFirst(t *testing.T) {
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		one, first := caddytest.NewMember(t, "one", "refresh 1ms")
		_, other := caddytest.NewMember(t, "two", "eras "+map[bool]string{true: "legacy", false: "modern"}[revision == scripted.Modern])
		p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, other}))
		c, s := listener(t, p, revision, 4)
		large := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 10_000) + `"}}`
		parts := []string{": hello\n\n", "id: 7\r\ndata: " + large + "\r\n\r\n", "event: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/progress\"}\n\n"}
		var result string
		one.SetScript("tools/call", func(x *scripted.Exchange) {
			one.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "told", 3))
			result = "data:" + x.Envelope(`{"resultType":"complete","content":[]}`) + "\n" // no blank line
			x.Bytes(parts[0])
			x.Bytes("id: 8\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
			x.Bytes(parts[1] + parts[2])
			x.Bytes(result)
		})
		params := `{"name":"one__item-0000"}`
		if c.Modern() {
			params = c.Params(`"name":"one__item-0000"`)
		}
		a := c.Call("tools/call", params)
		if want := parts[0] + "id: 8\n\n" + parts[1] + parts[2] + result; string(a.Body) != want {
			t.Errorf("the client is given %q\nwant %q", a.Body, want)
		}
		hears(t, s, toolsChanged)
		if a := c.List(scripted.ToolsList); len(a.Items("tools")) != 5 || !a.CacheStatus().Hit {
			t.Errorf("after it was told, a client is given %s: %s", a, a.Body)
		}
	})
}

// TestToolkitTellsOverReloads: streams live on over reloads, and tell of servers that are added
// and removed.
func TestToolkitTellsOverReloads(t *testing.T) {
	_, first := caddytest.NewMember(t, "one")
	_, second := caddytest.NewMember(t, "two")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}, "gate 1m"))
	_, modern := listener(t, p, scripted.Modern, 2)
	c, legacy := listener(t, p, scripted.LatestLegacy, 2)
	for _, members := range [][]caddytest.Member{{first, second}, {second}, {first}} {
		p.Reload(caddytest.ToolkitOf(members, "gate 1m"))
		for _, s := range []*fixture.Stream{modern, legacy} {
			for _, kind := range []string{"tools", "prompts", "resources"} {
				s.Await("notifications/" + kind + "/list_changed")
			}
		}
		if a := c.List(scripted.ToolsList); len(a.Items("tools")) != 2*len(members) {
			t.Errorf("after a reload and a notice, a client is given %s: %s", a, a.Body)
		}
		p.Reload(caddytest.ToolkitOf(members, "gate 1m")) // which changes nothing
	}
	p.Reload("respond gone 410")
	modern.AwaitEnd()
	legacy.AwaitEnd()
}

// TestToolkitTellsWhoComesBack: a client that was away, or came through a restart, is told what
// it has missed, and of nothing else.
func TestToolkitTellsWhoComesBack(t *testing.T) {
	one, first := caddytest.NewMember(t, "one", "refresh 1ms")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}, "gate 1m"))
	c, s := listener(t, p, scripted.LatestLegacy, 2)
	primer := get(t, c, "")
	if primer == "" {
		t.Fatal("a client is given no id to come back with")
	}
	for name, away := range map[string]func(){
		"a while": func() {},
		"a restart": func() {
			caddytest.GoIdle(t)
			p.Reload(caddytest.ToolkitOf([]caddytest.Member{first}, "gate 1m"))
			fixture.CloseIdleConnections()
		},
	} {
		s.Close()
		caddytest.HasListed(t, c, scripted.ToolsList, 2)
		last := get(t, c, "")
		fixture.Await(t, "the feeds' streams", func() bool { return one.Streams(scripted.Feeds) == 2 })
		one.SetList(scripted.PromptsList, scripted.Items(scripted.PromptsList, name, 1))
		one.Changed(scripted.Feeds, scripted.PromptsList)
		c.AwaitList(scripted.PromptsList, "the changed list", func(a *fixture.Answer) bool { return strings.Contains(string(a.Body), name) })
		away()
		s = c.Get(last)
		e := hears(t, s, "notifications/prompts/list_changed")
		s.Close()
		s = c.Get(e.ID) // as if that were the last it has
		one.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, name, 2))
		fixture.Await(t, "the feeds' streams", func() bool { return one.Streams(scripted.Feeds) == 2 })
		one.Changed(scripted.Feeds, scripted.ToolsList)
		hears(t, s, toolsChanged)
	}
}

// get opens a GET stream, and returns the id that it begins with.
func get(t testing.TB, c *fixture.Raw, last string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Deadline)
	defer cancel()
	res, err := c.Open(ctx, http.MethodGet, nil, http.Header{"Accept": {"text/event-stream"}, "Last-Event-Id": {last}})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	line, _ := bufio.NewReader(res.Body).ReadString('\n')
	id, _ := strings.CutPrefix(strings.TrimSpace(line), "id: ")
	return id
}

// TestToolkitListening: who may listen, and for how long.
func TestToolkitListening(t *testing.T) {
	one, first := caddytest.NewMember(t, "one", "refresh 1ms")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}, "max_sessions 6"))
	c, s := listener(t, p, scripted.LatestLegacy, 2)
	stream := http.Header{"Accept": {"text/event-stream"}}
	with := func(name, value string) http.Header {
		h := stream.Clone()
		h[name] = []string{value}
		return h
	}
	for name, tt := range map[string]struct {
		more   http.Header
		status int
		says   string
	}{
		"another's id":   {with("Last-Event-Id", "7"), 400, "answers of servers are not resumed"},
		"a long id":      {with("Last-Event-Id", strings.Repeat("A", 5000)+".1"), 400, "answers of servers are not resumed"},
		"no session":     {with("Mcp-Session-Id", ""), 400, "Mcp-Session-Id is missing"},
		"a forged one":   {with("Mcp-Session-Id", "x"), 404, "Session not found"},
		"a modern one":   {with("Mcp-Protocol-Version", scripted.Modern), 405, "subscriptions/listen"},
		"JSON":           {http.Header{"Accept": {"application/json"}}, 406, "text/event-stream"},
		"another method": {nil, 405, "POST, GET, DELETE"},
	} {
		method := http.MethodGet
		if tt.more == nil {
			method = http.MethodPut
		}
		if a, err := c.Try(t.Context(), method, "", tt.more); err != nil || a.Status != tt.status || !strings.Contains(string(a.Body), tt.says) {
			t.Errorf("%s: got %s, %v: %s", name, a, err, a.Body)
		}
	}
	m := fixture.NewModern(t, p.URL, "")
	for _, filter := range []string{"", `"notifications":null`, `"notifications":[]`, `"notifications":{"toolsListChanged":1}`, `"notifications":{"promptsListChanged":"true"}`} {
		if a := m.Call("subscriptions/listen", m.Params(filter)); a.Status != http.StatusBadRequest || a.ErrorCode() != -32602 {
			t.Errorf("a subscription to %s gave %s: %s", filter, a, a.Body)
		}
	}
	// Of several streams of one session, the newest is told, and then the one before.
	newer := c.Get("")
	tell := func(round string) {
		t.Helper()
		fixture.Await(t, "the feeds' streams", func() bool { return one.Streams(scripted.Feeds) == 2 })
		one.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, round, 2))
		one.Changed(scripted.Feeds, scripted.ToolsList)
	}
	tell("a")
	newer.Await(toolsChanged)
	newer.Close()
	fixture.Await(t, "the stream to be gone", func() bool {
		tell(fmt.Sprint("b", time.Now()))
		return s.Has()
	})
	s.Await(toolsChanged)
	// A fifth stream ends the first, and there are as many as there may be.
	for range 4 {
		c.Get("")
	}
	s.AwaitEnd()
	other := fixture.NewLegacy(t, p.URL, scripted.LatestLegacy, "")
	other.Get("")
	other.Get("")
	if a, err := other.Try(t.Context(), http.MethodGet, "", stream); err != nil || a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		t.Errorf("a stream too many gave %s, %v", a, err)
	}
}

// TestToolkitStreamEndsWithItsSession: the end of a session ends its stream alone.
func TestToolkitStreamEndsWithItsSession(t *testing.T) {
	one, first := caddytest.NewMember(t, "one", "refresh 1ms", "session_lost end")
	one.SetRevisions(legacyRevisions...)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	ended, s := listener(t, p, scripted.LatestLegacy, 2)
	lost, l := listener(t, p, "2025-06-18", 2)
	_, left := listener(t, p, "2025-03-26", 2)
	ended.Delete()
	s.AwaitEnd()
	lost.Call("tools/call", `{"name":"one__item-0000"}`)
	for _, id := range sessionsOf(one, "tools/call") {
		one.EndSession(id)
	}
	if a := lost.Call("tools/call", `{"name":"one__item-0000"}`); a.Status != http.StatusNotFound {
		t.Errorf("a call in a session that is lost gave %s", a)
	}
	l.AwaitEnd()
	fixture.Await(t, "the feed's stream", func() bool { return one.Streams(scripted.Feeds) > 0 })
	one.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "new", 1))
	one.Changed(scripted.Feeds, scripted.ToolsList)
	hears(t, left, toolsChanged)
}

// TestToolkitSessionExpires: when the time of a session is over, its stream ends, and so does what is open for it at
// servers.
func TestToolkitSessionExpires(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	one.SetRevisions(legacyRevisions...)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	legacyClient(t, p, scripted.LatestLegacy, 2) // the lists are there
	p.Reload(caddytest.ToolkitOf([]caddytest.Member{first}, "session_ttl 3s"))
	c, stream := listener(t, p, scripted.LatestLegacy, 2)
	c.Call("tools/call", `{"name":"one__item-0000"}`)
	stream.AwaitEnd()
	for _, id := range sessionsOf(one, "tools/call") {
		fixture.Await(t, "the session with the server to end", func() bool { return !one.Lives(id) })
	}
	if a := c.List(scripted.ToolsList); a.Status != http.StatusNotFound {
		t.Errorf("then a list gave %s", a)
	}
}

// TestToolkitStreamsEndWithCaddy: a process that is to end does not wait for those who listen,
// and tells them.
func TestToolkitStreamsEndWithCaddy(t *testing.T) {
	one, _ := caddytest.NewMember(t, "one")
	two, _ := caddytest.NewMember(t, "two")
	p := caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", "one="+one.Host.URL, "--to", "two="+two.Host.URL)
	var url string
	fixture.Await(t, "its address", func() bool {
		line, ok := p.Find("mcp_cache is at ")
		url, _, _ = strings.Cut(line, ", ")
		return ok
	})
	legacy := fixture.NewLegacy(t, url, scripted.LatestLegacy, "").Get("")
	modern := fixture.NewModern(t, url, "").Listen()
	process, err := os.FindProcess(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if e, ok := modern.Next(); !ok || !strings.Contains(e.Data, `"resultType":"complete"`) {
		t.Errorf("the end is said by %q", e.Data)
	}
	modern.AwaitEnd()
	legacy.AwaitEnd()
}

// TestToolkitTellsSDKs: clients of SDKs are told of what servers of SDKs announce, in either
// era.
func TestToolkitTellsSDKs(t *testing.T) {
	p, servers, _ := sdkToolkit(t, fixture.NewGoSDKServer(t, true), fixture.NewMCPGoServer(t, "stateful"))
	var clients []fixture.SDKClient
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		caddytest.HasListed(t, fixture.New(t, p.URL, revision, ""), scripted.ToolsList, 6)
	}
	for _, revision := range append(legacyRevisions, scripted.Modern) {
		clients = append(clients, fixture.NewGoSDKClient(t, p.URL, revision), fixture.NewMCPGoClient(t, p.URL, revision))
	}
	fixture.Await(t, "their streams", func() bool { return caddytest.Scrape(t)[`listeners{handler="mcp_cache"}`] == float64(len(clients)) })
	for i, s := range servers {
		s.Grow()
		for _, c := range clients {
			select {
			case <-c.Changed():
			case <-time.After(fixture.Deadline):
				t.Fatalf("%s: %T is not told", c.Revision(), c)
			}
			if n, err := c.List(t.Context()); err != nil || n[0] != 7+i {
				t.Errorf("%s: %T lists %v, %v", c.Revision(), c, n, err)
			}
		}
	}
}
