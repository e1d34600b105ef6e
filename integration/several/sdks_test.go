package several

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// sdkUser is a client of an SDK, and where the prefix is of the tools that it calls.
type sdkUser struct {
	fixture.SDKClient

	prefix *string
	// says is that it tells a server when it gives a call up.
	says bool
}

// TestToolkitOfSDKs: clients of SDKs use servers of SDKs without sessions.
func TestToolkitOfSDKs(t *testing.T) {
	p, servers, members := sdkToolkit(t, fixture.NewGoSDKServer(t, true), fixture.NewMCPGoServer(t, "stateless"))
	caddytest.HasListed(t, fixture.NewModern(t, p.URL, ""), scripted.ToolsList, 6)
	goSDK := fixture.NewGoSDKClient(t, p.URL, scripted.Modern)
	useToolkit(t, "go-sdk", sdkUser{goSDK, &goSDK.Prefix, true}, scripted.Modern, servers, members)
}

// TestToolkitSessionOfSDKs: clients of SDKs that open sessions use servers of SDKs with
// sessions.
func TestToolkitSessionOfSDKs(t *testing.T) {
	p, servers, members := sdkToolkit(t, fixture.NewGoSDKServer(t, false), fixture.NewMCPGoServer(t, "stateful"))
	caddytest.HasListed(t, fixture.NewLegacy(t, p.URL, scripted.LatestLegacy, ""), scripted.ToolsList, 6)
	goSDK, mcpGo := fixture.NewGoSDKClient(t, p.URL, scripted.LatestLegacy), fixture.NewMCPGoClient(t, p.URL, scripted.LatestLegacy)
	useToolkit(t, "go-sdk", sdkUser{goSDK, &goSDK.Prefix, true}, scripted.LatestLegacy, servers, members)
	useToolkit(t, "mcp-go", sdkUser{mcpGo, &mcpGo.Prefix, false}, scripted.LatestLegacy, servers, members)
}

// TestBridgeOfSDKs: clients of every revision use servers of both eras, side by side.
func TestBridgeOfSDKs(t *testing.T) {
	servers := []*fixture.SDKServer{
		fixture.NewGoSDKServer(t, false), fixture.NewMCPGoServer(t, "stateful"), // with sessions
		fixture.NewGoSDKServer(t, true), fixture.NewMCPGoServer(t, "stateless"), // modern ones
		fixture.NewGoSDKServer(t, true), fixture.NewMCPGoServer(t, "stateless"), // legacy ones without sessions
	}
	var members []caddytest.Member
	for i, s := range servers {
		m := caddytest.Member{Name: []string{"a", "b", "c", "d", "e", "f"}[i], URL: s.URL}
		switch i {
		case 2, 3:
			m.Options = []string{"eras modern"}
		case 4, 5:
			m.Options = []string{"eras legacy"}
		}
		members = append(members, m)
	}
	p := caddytest.StartProxy(t, caddytest.ToolkitOf(members))
	for _, revision := range append(legacyRevisions, scripted.Modern) {
		caddytest.HasListed(t, fixture.New(t, p.URL, revision, ""), scripted.ToolsList, 3*len(servers))
		t.Run(revision, func(t *testing.T) {
			goSDK, mcpGo := fixture.NewGoSDKClient(t, p.URL, revision), fixture.NewMCPGoClient(t, p.URL, revision)
			useToolkit(t, "go-sdk", sdkUser{goSDK, &goSDK.Prefix, true}, revision, servers, members)
			useToolkit(t, "mcp-go", sdkUser{mcpGo, &mcpGo.Prefix, false}, revision, servers, members)
		})
	}
}

// sdkToolkit starts a toolkit of two servers.
func sdkToolkit(t *testing.T, servers ...*fixture.SDKServer) (*caddytest.Proxy, []*fixture.SDKServer, []caddytest.Member) {
	t.Helper()
	var members []caddytest.Member
	for i, s := range servers {
		members = append(members, caddytest.Member{Name: []string{"first", "second"}[i], URL: s.URL})
	}
	return caddytest.StartProxy(t, caddytest.ToolkitOf(members)), servers, members
}

// useToolkit lists, calls with progress, gets a prompt, completes it, cancels and reads.
func useToolkit(t *testing.T, name string, c sdkUser, revision string, servers []*fixture.SDKServer, members []caddytest.Member) {
	t.Helper()
	if got := c.Revision(); got != revision {
		t.Fatalf("%s speaks %s", name, got)
	}
	counts, err := c.List(t.Context())
	if want := (fixture.Counts{3 * len(servers), 2 * len(servers), 2, 1}); err != nil || counts != want {
		t.Errorf("%s lists %v, %v; want %v: of two resources of one URI, the first", name, counts, err, want)
	}
	for i, s := range servers {
		*c.prefix = members[i].Name + "__"
		if err := c.Progress(t.Context()); err != nil {
			t.Errorf("%s: a call of %s with progress: %v", name, s.Name, err)
		}
		if text, completed, err := c.Prompt(t.Context()); err != nil || text != fixture.PromptText || completed != fixture.Completed {
			t.Errorf("%s: a prompt of %s is %q, completed to %q, %v", name, s.Name, text, completed, err)
		}
		if !c.says || slices.Contains(members[i].Options, "eras legacy") { // without sessions, it is told nothing
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- c.Wait(ctx) }()
		<-s.Waiting
		cancel()
		<-s.Cancelled
		if err := <-failed; err == nil {
			t.Errorf("%s: a call of %s that was cancelled did not fail", name, s.Name)
		}
	}
	if text, err := c.Read(t.Context()); err != nil || text != fixture.ResourceText {
		t.Errorf("%s: a read gave %q, %v", name, text, err)
	}
}

// TestToolkitOfOthers: clients that others wrote, of both eras, call servers of both eras that
// others wrote, behind one endpoint.
func TestToolkitOfOthers(t *testing.T) {
	o := caddytest.InstalledOthers(t)
	goSDK, mcpGo := fixture.NewGoSDKServer(t, true), fixture.NewMCPGoServer(t, "stateful")
	goSDK.Grow()
	mcpGo.Grow()
	python := func(packages, script string) string {
		addr := fixture.FreeAddr(t)
		_, port, _ := net.SplitHostPort(addr) // it is one
		caddytest.StartOther(t, addr, o.Python(packages, script, port)...)
		return "http://" + addr + "/mcp"
	}
	everything := caddytest.StartOther(t, fixture.FreeAddr(t), o.Everything()...)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{
		{Name: "everything", URL: "http://" + everything.Addr + "/mcp"},
		{Name: "plain", URL: python("mcp1", "plain.py")},
		{Name: "growing", URL: python("fastmcp", "growing.py")},
		{Name: "gosdk", URL: goSDK.URL, Options: []string{"eras modern"}},
		{Name: "mcpgo", URL: mcpGo.URL},
	}, "gate 30s"))
	want := []struct{ tool, text string }{
		{"everything__echo", "Echo: hi"}, {"plain__plain", ""}, {"growing__grow", "grown_"}, {"gosdk__grown", "called grown"}, {"mcpgo__grown", "called grown"},
	}
	var tools []string
	for _, w := range want {
		tools = append(tools, w.tool)
	}
	for name, program := range o.SDKSessions() {
		t.Run(name, func(t *testing.T) {
			sessions := caddytest.OpenSessions(t, program, p.URL, 2, 1, tools...)
			if len(sessions) != 2 {
				t.Fatalf("%d sessions", len(sessions))
			}
			for _, session := range sessions {
				calls := slices.DeleteFunc(session, func(c caddytest.Reply) bool { return c.Tool == "" })
				for i, w := range want {
					if len(calls) != len(want) || calls[i].Tool != w.tool || !strings.HasPrefix(calls[i].Text, w.text) {
						t.Errorf("calls gave %+v", calls)
						break
					}
				}
			}
		})
	}
}
