package several

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestToolkitIsTold: handlers around a toolkit, the access log and metrics are told which of
// its servers a request was handed to.
func TestToolkitIsTold(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	_, second := caddytest.NewMember(t, "two")
	p := caddytest.StartProxy(t, "log\nroute {\nheader >X-Told \"{http.mcp_cache.server}|{http.mcp_cache.outcome}|{http.mcp_cache.tool}\"\n"+
		caddytest.ToolkitOf([]caddytest.Member{first, second})+"\n}")
	calls := func(server string) float64 {
		return caddytest.Metric(t, fmt.Sprintf(`requests_total{handler="mcp_cache%s",method="tools/call",outcome="routed"}`, server))
	}
	for n, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "")
		if told := caddytest.HasListed(t, c, scripted.ToolsList, 4).Header.Get("X-Told"); told != "|hit|" {
			t.Errorf("of a list, handlers are told %q", told)
		}
		all, own, other := calls(""), calls("/two"), calls("/one")
		a := c.Call("tools/call", c.Params(`"name":"two__item-0001"`))
		if told := a.Header.Get("X-Told"); told != "two|routed|two__item-0001" {
			t.Errorf("of a call, handlers are told %q: %s", told, a)
		}
		fixture.Await(t, "the metrics", func() bool { return calls("") == all+1 && calls("/two") == own+1 && calls("/one") == other })
		fixture.Await(t, "the access log", func() bool {
			return len(slices.DeleteFunc(caddytest.AccessLog(t, p), func(e map[string]any) bool { return e["mcp_server"] != "two" })) == n+1
		})
	}
	// What a server says of its lists in the answer to a call, it was that said it.
	changes := func(handler string) float64 {
		return caddytest.Scrape(t)[fmt.Sprintf(`changes_total{handler="%s",kind="tools",source="client"}`, handler)]
	}
	one.SetScript("tools/call", func(x *scripted.Exchange) {
		x.Event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		x.Event(x.Envelope(`{"resultType":"complete","content":[]}`))
	})
	c := fixture.NewModern(t, p.URL, "")
	c.Call("tools/call", c.Params(`"name":"one__item-0000"`))
	if of, all := changes("mcp_cache/one"), changes("mcp_cache"); of != 1 || all != 0 {
		t.Errorf("%v changes are counted for the server, %v for the toolkit", of, all)
	}
}

// TestToolkitCommands: commands know a toolkit and each of its servers.
func TestToolkitCommands(t *testing.T) {
	_, first := caddytest.NewMember(t, "one")
	two, second := caddytest.NewMember(t, "two")
	caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	for _, name := range []string{"one", "two"} {
		caddytest.AwaitReady(t, "mcp_cache/"+name)
	}
	for _, run := range []struct {
		args      []string
		has, lack string
	}{
		{[]string{"list", "tools"}, "two__item-0001", " item-0001"},
		{[]string{"list", "tools", "--name", "mcp_cache/two"}, "item-0001", "two__item-0001"},
		{[]string{"describe", "tools", "two__item-0001"}, `"two__item-0001"`, "item-0000"},
		{[]string{"describe", "tools", "item-0001", "--name", "mcp_cache/two"}, `"item-0001"`, "two__"},
		{[]string{"status"}, "mcp_cache/two", "CONFLICT"},
		{[]string{"purge"}, "mcp_cache", "two"},
	} {
		if out, _ := caddytest.Command(t, 0, run.args...); !strings.Contains(out, run.has) || strings.Contains(out, run.lack) {
			t.Errorf("%v printed\n%s", run.args, out)
		}
	}
	two.SetList(scripted.ToolsList, caddytest.OwnItems(scripted.ToolsList, "new"))
	out, _ := caddytest.Command(t, 0, "refresh", "tools", "--name", "mcp_cache/two", "--json")
	if !strings.Contains(out, `"item-0001"`) || strings.Contains(out, "mcp_cache/one") {
		t.Errorf("a refresh of one server printed %s", out)
	}
	if out, _ = caddytest.Command(t, 0, "refresh", "tools"); !strings.Contains(out, "mcp_cache/one") || !strings.Contains(out, "mcp_cache/two") {
		t.Errorf("a refresh of a toolkit printed %s", out)
	}
	if _, text := caddytest.Command(t, 1, "list", "tools", "--name", "mcp_cache/three"); !strings.Contains(text, "mcp_cache/two") {
		t.Errorf("that there is no such server, is said with %s", text)
	}
}

// TestToolkitReloadLeavesOthers: a reload that changes one server, or takes it away, leaves the
// feeds, a call under way, the session and the stream of the others as they are.
func TestToolkitReloadLeavesOthers(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	_, second := caddytest.NewMember(t, "two")
	one.SetRevisions(legacyRevisions...)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}, "gate 1m"))
	c, stream := listener(t, p, scripted.LatestLegacy, 4)
	fixture.Await(t, "the feed's stream", func() bool { return one.Streams(scripted.Feeds) == 1 })
	asked := one.Host.CountFeed(scripted.ToolsList)
	entered, release := make(chan struct{}), make(chan struct{})
	one.SetScript("tools/call", func(x *scripted.Exchange) {
		entered <- struct{}{}
		<-release
		x.Result(`{"content":[{"type":"text","text":"at last"}]}`)
	})
	answers := make(chan *fixture.Answer)
	changed := second
	changed.Options = []string{"max_ttl 1h"}
	for n, members := range [][]caddytest.Member{{first, changed}, {first}} {
		go func() { answers <- c.Call("tools/call", `{"name":"one__item-0000"}`) }()
		<-entered
		p.Reload(caddytest.ToolkitOf(members, "gate 1m"))
		release <- struct{}{}
		if a := <-answers; !strings.Contains(string(a.Body), "at last") {
			t.Errorf("a call that was under way gave %s: %s", a, a.Body)
		}
		if ids := sessionsOf(one, "tools/call"); len(ids) != n+1 || ids[n] != ids[0] {
			t.Errorf("the sessions of the calls are %q", ids)
		}
	}
	stream.Await(toolsChanged) // two is gone
	if a := c.List(scripted.ToolsList); len(a.Items("tools")) != 2 {
		t.Errorf("a list is %s", a.Body)
	}
	if n := one.Host.CountFeed(scripted.ToolsList); n != asked || one.Streams(scripted.Feeds) != 1 {
		t.Errorf("the feed has listed %d times, before the reloads %d; it has %d streams", n, asked, one.Streams(scripted.Feeds))
	}
}

// TestToolkitExample: every client uses every server of the example, which are of SDKs and of
// different eras.
func TestToolkitExample(t *testing.T) {
	source, err := os.ReadFile("../../examples/toolkit/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	servers := []*fixture.SDKServer{
		fixture.NewMCPGoServer(t, "stateful"), fixture.NewMCPGoServer(t, "stateless"),
		fixture.NewGoSDKServer(t, true), fixture.NewGoSDKServer(t, true),
	}
	text := string(source)
	for i, s := range servers {
		configured := fmt.Sprintf("http://127.0.0.1:%d/mcp", 3001+i)
		if strings.Count(text, configured) != 1 {
			t.Fatalf("the example does not have %s once", configured)
		}
		text = strings.Replace(text, configured, s.URL, 1)
	}
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	addr := caddytest.StartAdapted(t, adapted)[0]
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		caddytest.HasListed(t, fixture.New(t, "http://"+addr+"/mcp", revision, ""), scripted.ToolsList, 9)
		c := fixture.NewGoSDKClient(t, "http://"+addr+"/mcp", revision)
		for _, c.Prefix = range []string{"notes__", "docs__", ""} {
			if err := c.Progress(t.Context()); err != nil {
				t.Errorf("a client of %s calls a tool with the prefix %q: %v", revision, c.Prefix, err)
			}
		}
	}
	status, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/tools", nil)
	if status != http.StatusOK || strings.Contains(string(body), "left_out") {
		t.Errorf("the status is %d: %s", status, body)
	}
}
