package integration

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// isStale reports whether an answer came from the cache after its time.
func isStale(a *fixture.Answer) bool {
	s := a.CacheStatus()
	return a.Status == http.StatusOK && s.Hit && s.Detail == "stale"
}

// TestUpstreamOutage kills the upstream and brings it back, changed: lists go
// on, marked stale; calls fail; then all is fresh again.
func TestUpstreamOutage(t *testing.T) {
	w := newUpstream(t)
	w.SetHints(scripted.PublicBrief)
	w.start("ttl 300ms", "refresh 50ms")
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		for _, method := range scripted.ListMethods() {
			w.mark(method, "v1 "+revision)
		}
		c := w.client(revision)
		for _, method := range scripted.ListMethods() {
			c.AwaitList(method, "the list", func(a *fixture.Answer) bool { return isHit(a, method, "v1 "+revision) })
		}
		w.host.Kill()
		for _, method := range scripted.ListMethods() {
			a := c.AwaitList(method, "a stale hit", isStale)
			if markOf(a, method) != "v1 "+revision {
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
			w.mark(method, "v2 "+revision)
		}
		w.host.Start()
		for _, method := range scripted.ListMethods() {
			c.AwaitList(method, "a fresh list", func(a *fixture.Answer) bool {
				return isHit(a, method, "v2 "+revision) && !isStale(a)
			})
		}
	})
}

// TestStaleIfErrorOff kills the upstream of a handler that may not serve old
// lists.
func TestStaleIfErrorOff(t *testing.T) {
	w := newUpstream(t)
	w.SetHints(scripted.PublicBrief)
	w.start("ttl 300ms", "refresh 50ms", "stale_if_error 0")
	c := w.client(scripted.Modern)
	c.Settle(scripted.ToolsList)
	w.host.Kill()
	c.AwaitList(scripted.ToolsList, "the failure", func(a *fixture.Answer) bool { return a.Status == http.StatusBadGateway })
}

// TestUpstreamAbsentAtStart starts Caddy before its upstream: Caddy serves at
// once, and lists work as soon as the upstream is there.
func TestUpstreamAbsentAtStart(t *testing.T) {
	eachEra(t, func(t *testing.T, revision string) {
		w := newUpstream(t)
		w.proxy = startProxy(t, "handle /health {\nrespond ok\n}\nhandle {\n"+mcpCache(w.host.URL)+"\n}")
		res, err := fixture.HTTPClient(t, "health", "").Get("http://" + w.proxy.Addr + "/health")
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("Caddy is not up: %v, %v", res, err)
		}
		_ = res.Body.Close()
		modern := fixture.NewModern(t, w.proxy.URL, "")
		if a := modern.List(scripted.ToolsList); a.Status < 500 {
			t.Errorf("without an upstream, a list gave %s", a)
		}
		w.host.Start()
		fixture.Await(t, "the first list", func() bool {
			return markOf(w.client(revision).List(scripted.ToolsList), scripted.ToolsList) == "v1"
		})
		wantHit(t, w.client(revision).Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	})
}

// TestValidateTouchesNoNetwork adapts and reloads configurations whose
// upstreams do not exist.
func TestValidateTouchesNoNetwork(t *testing.T) {
	h := fixture.NewDownHost(t, scripted.New())
	p := startProxy(t, mcpCache(h.URL))
	for range 3 {
		p.reload(mcpCache(h.URL))
	}
	if n := len(h.Requests(func(*fixture.Request) bool { return true })); n != 0 {
		t.Errorf("a host that is down got %d requests", n)
	}
}
