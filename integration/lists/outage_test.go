package lists

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestUpstreamOutage kills the upstream and brings it back, changed: lists go
// on, marked stale; calls fail; then all is fresh again.
func TestUpstreamOutage(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicBrief)
	w.Start("ttl 300ms", "refresh 50ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		for _, method := range scripted.ListMethods() {
			w.Mark(method, "v1 "+revision)
		}
		c := w.Client(revision)
		for _, method := range scripted.ListMethods() {
			c.AwaitList(method, "the list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, method, "v1 "+revision) })
		}
		w.Host.Kill()
		for _, method := range scripted.ListMethods() {
			a := c.AwaitList(method, "a stale hit", caddytest.IsStale)
			if caddytest.MarkOf(a, method) != "v1 "+revision {
				t.Errorf("stale %s is %s", method, a)
			}
			if s := a.CacheStatus(); !s.HasTTL || s.TTL > 0 {
				t.Errorf("stale %s has Cache-Status %q", method, s.Raw)
			}
		}
		call := c.Call("tools/call", c.Params(`"name":"item-0000"`))
		if call.Status != http.StatusBadGateway {
			t.Errorf("a call gave %s", call)
		}
		for _, method := range scripted.ListMethods() {
			w.Mark(method, "v2 "+revision)
		}
		w.Host.Start()
		for _, method := range scripted.ListMethods() {
			c.AwaitList(method, "a fresh list", func(a *fixture.Answer) bool {
				return caddytest.IsHit(a, method, "v2 "+revision) && !caddytest.IsStale(a)
			})
		}
	})
}

// TestStaleIfErrorOff kills the upstream of a handler that may not serve old
// lists.
func TestStaleIfErrorOff(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicBrief)
	w.Start("ttl 300ms", "refresh 50ms", "stale_if_error 0")
	c := w.Client(scripted.Modern)
	c.Settle(scripted.ToolsList)
	w.Host.Kill()
	c.AwaitList(scripted.ToolsList, "the failure", func(a *fixture.Answer) bool { return a.Status == http.StatusBadGateway })
}

// TestUpstreamAbsentAtStart starts Caddy before its upstream: Caddy serves at
// once, and lists work as soon as the upstream is there.
func TestUpstreamAbsentAtStart(t *testing.T) {
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := caddytest.NewUpstream(t)
		w.Proxy = caddytest.StartProxy(t, "handle /health {\nrespond ok\n}\nhandle {\n"+caddytest.Directive(w.Host.URL)+"\n}")
		res, err := fixture.HTTPClient(t, "health", "").Get("http://" + w.Proxy.Addr + "/health")
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("Caddy is not up: %v, %v", res, err)
		}
		_ = res.Body.Close()
		modern := fixture.NewModern(t, w.Proxy.URL, "")
		if a := modern.List(scripted.ToolsList); a.Status < 500 {
			t.Errorf("without an upstream, a list gave %s", a)
		}
		w.Host.Start()
		fixture.Await(t, "the first list", func() bool {
			return caddytest.MarkOf(w.Client(revision).List(scripted.ToolsList), scripted.ToolsList) == "v1"
		})
		caddytest.WantHit(t, w.Client(revision).Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	})
}

// TestValidateTouchesNoNetwork adapts and reloads configurations whose
// upstreams do not exist.
func TestValidateTouchesNoNetwork(t *testing.T) {
	h := fixture.NewDownHost(t, scripted.New())
	p := caddytest.StartProxy(t, caddytest.Directive(h.URL))
	for range 3 {
		p.Reload(caddytest.Directive(h.URL))
	}
	if n := len(h.Requests(func(*fixture.Request) bool { return true })); n != 0 {
		t.Errorf("a host that is down got %d requests", n)
	}
}
