package lists

import (
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// gated starts a world whose feed gets no tools before it is released.
func gated(t *testing.T, gate string) (w *caddytest.World, release func()) {
	t.Helper()
	w = caddytest.NewUpstream(t)
	released := make(chan struct{})
	hang := scripted.Hang(released)
	w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		if x.Feed {
			hang(x)
			return
		}
		x.Default()
	})
	w.Start("gate " + gate)
	fixture.Await(t, "the feed's request", func() bool { return w.Host.CountFeed(scripted.ToolsList) > 0 })
	var done bool
	release = func() {
		if !done {
			done = true
			close(released)
		}
	}
	t.Cleanup(release)
	return w, release
}

// TestGateHoldsInitialize opens a session while the feed is still fetching: the
// answer comes when it is done. Once the upstream has shown its lists to one such
// client, those of the next are hits.
func TestGateHoldsInitialize(t *testing.T) {
	w, release := gated(t, "30s")
	opened := make(chan *fixture.Raw, 1)
	go func() { opened <- w.Client(scripted.LatestLegacy) }()
	fixture.Await(t, "initialize at the upstream", func() bool { return w.Host.CountClients("initialize") > 0 })
	select {
	case <-opened:
		t.Fatal("the gate did not hold initialize")
	case <-time.After(100 * time.Millisecond): // what must not happen has no condition to wait for
	}
	release()
	c := <-opened
	for _, method := range scripted.ListMethods() {
		if a := c.List(method); caddytest.MarkOf(a, method) != "v1" {
			t.Errorf("the first list is %s", a)
		}
	}
	next := w.Client(scripted.LatestLegacy)
	for _, method := range scripted.ListMethods() {
		caddytest.WantHit(t, next.List(method), method, "v1")
	}
	if n := w.Host.CountClients(scripted.ToolsList); n != 1 {
		t.Errorf("%d lists reached the upstream", n)
	}
}

// TestGateOpensInTime opens sessions while the feed gets no answer at all.
func TestGateOpensInTime(t *testing.T) {
	for _, gate := range []string{"0", "50ms"} {
		t.Run(gate, func(t *testing.T) {
			w, _ := gated(t, gate)
			c := w.Client(scripted.LatestLegacy)
			a := c.List(scripted.PromptsList)
			if caddytest.MarkOf(a, scripted.PromptsList) != "v1" {
				t.Errorf("behind an open gate, a list gave %s", a)
			}
		})
	}
}

// TestGateLetsOthersThrough calls a tool while the feed is still fetching: only
// initialize is held.
func TestGateLetsOthersThrough(t *testing.T) {
	w, _ := gated(t, "30s")
	c := w.Client(scripted.Modern)
	if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Part("result", "content") == nil {
		t.Errorf("the gate held a call: %s", a)
	}
}
