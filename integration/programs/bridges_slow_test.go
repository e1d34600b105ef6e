package programs

import (
	"net/http"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// slowList is longer than the slow program takes for a list.
const slowList = 15 * time.Second

// useSlowProgram has a bridge that exits when it cannot deliver an answer stand before a
// program that takes 12 s for each list (supergateway#165). It is still there after 90 s
// with the feed and a client, and after Caddy has let go of it in the middle of a list.
func useSlowProgram(t *testing.T, o caddytest.Others) {
	t.Helper()
	slow, err := filepath.Abs("../clients/slow.cjs")
	if err != nil {
		t.Fatal(err)
	}
	addr := fixture.FreeAddr(t)
	b := startBridge(t, "slow", addr, supergateway(o, "3", addr, o.Node(), slow))
	mcpCacheOf := func(ttl int) string { return caddytest.Directive(b.host.URL, "ttl "+strconv.Itoa(ttl)+"s") }
	p := caddytest.StartProxy(t, mcpCacheOf(bridgeTTL))
	session := fixture.NewLegacy(t, p.URL, scripted.LatestLegacy, "")
	for began := time.Now(); time.Since(began) < 90*time.Second; {
		for _, method := range scripted.ListMethods() {
			if a := session.List(method); a.Status != http.StatusOK || a.ErrorCode() != 0 || a.Part("result") == nil {
				t.Fatalf("%s gave %s", method, a)
			}
		}
		b.wantStays(t, time.Second, "in use")
	}
	if a := session.Delete(); a.Status != http.StatusOK {
		t.Errorf("the session's end gave %s", a)
	}
	b.awaitFeedsList(t)
	p.Reload(mcpCacheOf(bridgeTTL + 1))
	b.wantStays(t, slowList, "after a reload")
	b.awaitFeedsList(t)
	p.Reload("respond gone 410")
	b.wantStays(t, slowList, "after the cache was taken away")
	caddy := caddytest.NewKillable(t, "http://"+fixture.FreeAddr(t)+" {\n"+mcpCacheOf(bridgeTTL)+"\n}")
	caddy.Start()
	b.awaitFeedsList(t)
	_ = caddy.Cmd.Process.Signal(syscall.SIGTERM) // it is running
	_ = caddy.Cmd.Wait()
	caddy.Cmd = nil
	b.wantStays(t, slowList, "after Caddy has stopped")
	t.Logf("the slow program: refused %s\n  the feed sent %s\n  clients sent %s", &b.answers, b.asked(true), b.asked(false))
}

// awaitFeedsList waits until the feed has just asked for a list.
func (b *bridge) awaitFeedsList(t *testing.T) {
	t.Helper()
	asked := func() (n int) {
		for _, method := range scripted.ListMethods() {
			n += b.host.CountFeed(method)
		}
		return n
	}
	before := asked()
	fixture.Await(t, "a list of the feed", func() bool { return asked() > before })
}

// wantStays fails if the bridge ends within that time.
func (b *bridge) wantStays(t *testing.T, lasting time.Duration, when string) {
	t.Helper()
	select {
	case <-b.server.Gone:
		t.Fatalf("%s exited %s; the feed sent %s", b.name, when, b.asked(true))
	case <-time.After(lasting):
	}
}
