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

// feedMethods returns what the feed has asked the upstream for, in order.
func feedMethods(h *fixture.Host) []string {
	var methods []string
	for _, r := range h.Requests(func(r *fixture.Request) bool { return r.Feed }) {
		methods = append(methods, r.Method)
	}
	return methods
}

// TestLegacyServerThatClosesTheConnectionAtDiscover has a server speak the legacy era and
// end the connection at a server/discover, as some do (webclaw#107, copilot-cli#4809): it
// is asked a few times only, after its legacy lists were fetched, and counts as one that
// does not offer the modern era. Legacy clients notice nothing.
func TestLegacyServerThatClosesTheConnectionAtDiscover(t *testing.T) {
	const discover = "server/discover"
	w := caddytest.NewUpstream(t)
	w.SetRevisions(scripted.LatestLegacy)
	w.SetHints("")
	w.SetScript(discover, func(*scripted.Exchange) { panic(http.ErrAbortHandler) })
	w.Start("ttl 100ms", "refresh 10ms")
	c := w.Client(scripted.LatestLegacy)
	fixture.Await(t, "thirty lifetimes of the feed's list", func() bool {
		if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Status != http.StatusOK || a.ErrorCode() != 0 {
			t.Errorf("a call gave %s", a)
		}
		if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
			t.Errorf("a list gave %s", a)
		}
		return w.Host.CountFeed(scripted.ToolsList) >= 30
	})
	asked := feedMethods(w.Host)
	if first := slices.Index(asked, discover); first < slices.Index(asked, scripted.ToolsList) {
		t.Errorf("%s was sent before the first %s: %v", discover, scripted.ToolsList, asked)
	}
	// One more would take a minute and a half.
	if n := w.Host.CountFeed(discover); n < 1 || n > 10 {
		t.Errorf("%s was sent %d times", discover, n)
	}
	var status caddytest.Status
	caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &status)
	if states := status.States(); states["legacy"] != "ready" || states["modern"] != "unsupported" || !status.Ready {
		t.Errorf("the feeds are %v, ready: %v", states, status.Ready)
	}
	if n := strings.Count(w.Proxy.Log(), "and speaks the legacy era: not offered"); n != 1 {
		t.Errorf("the reason is logged %d times", n)
	}
}

// TestErasOption has the feed speak one era of a server of both: clients of the other one
// are answered by the server.
func TestErasOption(t *testing.T) {
	for name, tt := range map[string]struct{ spoken, silent, probe string }{
		"legacy": {scripted.LatestLegacy, scripted.Modern, "server/discover"},
		"modern": {scripted.Modern, scripted.LatestLegacy, "initialize"},
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewWorld(t, "eras "+name)
			c := w.Client(tt.silent)
			for range 3 {
				a := c.List(scripted.ToolsList)
				caddytest.WantForwarded(t, a)
				if caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
					t.Errorf("a list of the other era gave %s", a)
				}
			}
			caddytest.WantHit(t, w.Client(tt.spoken).Settle(scripted.ToolsList), scripted.ToolsList, "v1")
			caddytest.AwaitReady(t, "mcp_cache")
			var status caddytest.Status
			caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &status)
			if len(status.Feeds) != 1 || status.States()[name] != "ready" || !status.Ready {
				t.Errorf("the feeds are %+v", status.Feeds)
			}
			if n := w.Host.CountFeed(tt.probe); n != 0 {
				t.Errorf("the feed has sent %s %d times", tt.probe, n)
			}
		})
	}
}
