package lists

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestSessionsThatDiffer lets one session reveal tools of its own, as a login
// tool does: it is served by the upstream until its list is everybody's again.
func TestSessionsThatDiffer(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 10ms")
	c, other := w.Warm(scripted.LatestLegacy), w.Client(scripted.LatestLegacy)
	s := c.Notices()
	fixture.Await(t, "the stream", func() bool { return w.Streams(scripted.Session(c.Session)) == 1 })
	w.SetSessionList(c.Session, scripted.ToolsList, scripted.Items(scripted.ToolsList, "own", 3))
	w.Changed(scripted.Session(c.Session), scripted.ToolsList)
	s.Await("notifications/tools/list_changed")
	other.AwaitList(scripted.ToolsList, "everybody's list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v1") })
	for range 5 {
		a := c.List(scripted.ToolsList)
		caddytest.WantForwarded(t, a)
		if caddytest.MarkOf(a, scripted.ToolsList) != "own" {
			t.Errorf("the session got %s", a)
		}
		caddytest.WantHit(t, other.List(scripted.ToolsList), scripted.ToolsList, "v1")
		caddytest.WantHit(t, c.Settle(scripted.PromptsList), scripted.PromptsList, "v1") // its other lists are everybody's
	}
	w.SetSessionList(c.Session, scripted.ToolsList, scripted.Items(scripted.ToolsList, "v1", 3))
	c.AwaitList(scripted.ToolsList, "everybody's list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v1") })
}

// TestSessionlessLegacy serves legacy clients of an upstream without sessions.
func TestSessionlessLegacy(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetSessions(false)
	w.Start()
	c := w.Client(scripted.LatestLegacy)
	if c.Session != "" {
		t.Fatalf("a session was made up: %s", c.Session)
	}
	for _, method := range scripted.ListMethods() {
		caddytest.WantHit(t, c.Settle(method), method, "v1")
	}
}

// TestEveryRevision serves clients of each revision of a dual-era upstream.
func TestEveryRevision(t *testing.T) {
	w := caddytest.NewWorld(t)
	for _, revision := range []string{scripted.Modern, "2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(revision, func(t *testing.T) {
			w := w.On(t)
			c := w.Client(revision)
			if c.Revision != revision {
				t.Fatalf("negotiated %s", c.Revision)
			}
			for _, method := range scripted.ListMethods() {
				caddytest.WantHit(t, c.Settle(method), method, "v1")
			}
		})
	}
}

// TestOneEraOnly serves upstreams that speak one era: clients of the other get
// the upstream's own refusal.
func TestOneEraOnly(t *testing.T) {
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := caddytest.NewUpstream(t)
		w.SetRevisions(revision)
		w.Start()
		w.Warm(revision)
		foreign := fixture.NewModern(t, w.Proxy.URL, "")
		direct := fixture.NewModern(t, w.Host.URL, "")
		method, params := scripted.ToolsList, foreign.Params("")
		if revision == scripted.Modern {
			method, params = "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`
			foreign.Revision, direct.Revision = "", ""
		}
		got, want := foreign.Call(method, params), direct.Call(method, params)
		caddytest.WantForwarded(t, got)
		if got.Status != want.Status || string(got.Body) != string(want.Body) || want.Status != http.StatusBadRequest {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}

// TestManySessions opens and drops sessions: memory and goroutines stay flat.
func TestManySessions(t *testing.T) {
	w := caddytest.NewWorld(t)
	w.Warm(scripted.LatestLegacy)
	open := func(n int) {
		c := fixture.NewModern(t, w.Proxy.URL, "") // one connection for all
		for range n {
			a := c.Post(fixture.Message("1", "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`),
				http.Header{"Mcp-Protocol-Version": {}})
			session := http.Header{"Mcp-Session-Id": a.Header["Mcp-Session-Id"], "Mcp-Protocol-Version": {"2025-11-25"}}
			if a := c.Post(fixture.Message("2", scripted.ToolsList, "{}"), session); a.Status != http.StatusOK {
				t.Fatalf("listing gave %s", a)
			}
			if a, err := c.Try(t.Context(), http.MethodDelete, "", session); err != nil || a.Status != http.StatusNoContent {
				t.Fatalf("ending a session gave %s, %v", a, err)
			}
		}
		w.Host.Forget()
	}
	open(200)
	// What an ended session may leave is a memo of a few hundred bytes.
	caddytest.WantNothingLeft(t, "sessions", caddytest.Pick(500, 10_000), 4<<20, open)
	if clients, _ := w.Sessions(); clients > 1 {
		t.Errorf("%d sessions are left at the upstream", clients)
	}
}
