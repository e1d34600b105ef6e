package lists

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// seats are the ways of servers that take one session at a time.
var seats = map[string]func(s *scripted.Server) scripted.Script{
	"refused 400": func(s *scripted.Server) scripted.Script { return refusesSecond(s, http.StatusBadRequest) },
	"refused 500": func(s *scripted.Server) scripted.Script { return refusesSecond(s, http.StatusInternalServerError) },
	"thrown out": func(s *scripted.Server) scripted.Script {
		return func(x *scripted.Exchange) {
			s.ForgetSessions()
			x.Default()
		}
	},
}

func refusesSecond(s *scripted.Server, status int) scripted.Script {
	return func(x *scripted.Exchange) {
		if clients, feeds := s.Sessions(); clients+feeds > 0 {
			x.Error(status, -32000, "Bad Request: Server already initialized")
			return
		}
		x.Default()
	}
}

const oneSeat = "the upstream takes one session at a time"

// TestOneSeat has a server take one session at a time: what a client can do without the
// cache it can do with it, and the feed is back when the client has left.
func TestOneSeat(t *testing.T) {
	for name, script := range seats {
		for _, revision := range []string{scripted.LatestLegacy, "2025-06-18"} {
			t.Run(name+" "+revision, func(t *testing.T) {
				w := caddytest.NewUpstream(t)
				w.SetRevisions(scripted.LatestLegacy, "2025-06-18")
				w.SetScript("initialize", script(w.Server))
				w.Start("refresh 10ms")
				caddytest.AwaitReady(t, "mcp_cache")
				for range 2 {
					c := w.Client(revision)
					for range 40 {
						if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Status != http.StatusOK {
							t.Fatalf("a call gave %s", a)
						}
						if a := c.List(scripted.ToolsList); a.Status != http.StatusOK || caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
							t.Fatalf("a list gave %s", a)
						}
					}
					fixture.Await(t, "the feeds to yield", func() bool { return !slices.Contains(legacyStates(t), "ready") })
					if clients, feeds := w.Sessions(); clients != 1 || feeds != 0 {
						t.Errorf("%d clients and %d feeds have a session", clients, feeds)
					}
					if a := c.Delete(); a.Status != http.StatusNoContent {
						t.Fatalf("the session's end gave %s", a)
					}
					fixture.Await(t, "the feed to be back", func() bool { return slices.Contains(legacyStates(t), "ready") })
				}
				for range 10 { // with no time for the feed between them
					c := w.Client(revision)
					if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Status != http.StatusOK {
						t.Fatalf("a call gave %s", a)
					}
					c.Delete()
				}
				c := w.Client(revision)
				for range 5 { // who has lost a session opens another one at once
					w.ForgetSessions()
					if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Status != http.StatusNotFound {
						t.Fatalf("a call in a lost session gave %s", a)
					}
					c = w.Client(revision)
					if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Status != http.StatusOK {
						t.Fatalf("a call gave %s", a)
					}
				}
				if n := strings.Count(w.Proxy.Log(), oneSeat); n == 0 {
					t.Error("the log does not say that there is one seat")
				}
			})
		}
	}
}

// TestTakenSeat has a client take the only seat from another, whose lists are not from the
// cache any more.
func TestTakenSeat(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetRevisions(scripted.LatestLegacy)
	w.SetScript("initialize", seats["thrown out"](w.Server))
	w.Start("admit all")
	caddytest.AwaitReady(t, "mcp_cache")
	first := w.Client(scripted.LatestLegacy)
	fixture.Await(t, "the feed to yield", func() bool { return !slices.Contains(legacyStates(t), "ready") })
	first.AwaitList(scripted.ToolsList, "a hit", func(a *fixture.Answer) bool { return a.CacheStatus().Hit })
	w.Client(scripted.LatestLegacy)
	if a := first.List(scripted.ToolsList); a.Status != http.StatusNotFound {
		t.Errorf("a list in a session that is gone gave %s", a)
	}
}

// legacyStates are the states of the legacy feeds.
func legacyStates(t *testing.T) []string {
	var s caddytest.Status
	caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &s)
	var states []string
	for _, f := range s.Feeds {
		if f.Era == "legacy" {
			states = append(states, f.State)
		}
	}
	return states
}

// TestNoSeat has servers that look as if they took one session at a time, and do not.
func TestNoSeat(t *testing.T) {
	t.Run("refuses a client for another reason", func(t *testing.T) {
		w := caddytest.NewUpstream(t)
		w.SetRevisions(scripted.LatestLegacy)
		w.SetScript("initialize", func(x *scripted.Exchange) {
			if !x.Feed && x.R.Header.Get("X-Bad") != "" {
				x.Error(http.StatusBadRequest, -32602, "bad")
				return
			}
			x.Default()
		})
		w.Start()
		caddytest.AwaitReady(t, "mcp_cache")
		bad := fixture.NewModern(t, w.Proxy.URL, "")
		bad.Revision = ""
		for range 10 {
			a := bad.Post(fixture.Message("1", "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`),
				http.Header{"X-Bad": {"1"}})
			if a.Status != http.StatusBadRequest || a.ErrorCode() != -32602 {
				t.Errorf("a bad initialize gave %s", a)
			}
		}
		fixture.Await(t, "the feed to be ready", func() bool { return slices.Contains(legacyStates(t), "ready") })
		if n := w.Host.CountFeed("initialize"); n > 2 {
			t.Errorf("the feed opened %d sessions", n)
		}
		w.Warm(scripted.LatestLegacy)
		if strings.Contains(w.Proxy.Log(), oneSeat) {
			t.Error("the log says that there is one seat")
		}
	})
	t.Run("is restarted", func(t *testing.T) {
		w := caddytest.NewUpstream(t)
		w.SetRevisions(scripted.LatestLegacy)
		w.Start("refresh 10ms")
		caddytest.AwaitReady(t, "mcp_cache")
		for range 2 {
			before := w.Host.CountFeed("initialize")
			w.ForgetSessions()
			// Before a client does, as that could have ended the feed's session.
			fixture.Await(t, "the feed to notice", func() bool { return w.Host.CountFeed("initialize") > before })
			w.Warm(scripted.LatestLegacy)
		}
		if strings.Contains(w.Proxy.Log(), oneSeat) {
			t.Error("the log says that there is one seat")
		}
	})
}
