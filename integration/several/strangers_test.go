package several

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestStrangersTakeNoPlaces has one stranger ask with more credentials than a server may be asked for at once.
// The server hangs for each of them. The first list of a caller from elsewhere has that server's tools
// nevertheless.
func TestStrangersTakeNoPlaces(t *testing.T) {
	const places = 1000
	one, first := caddytest.NewMember(t, "one", "headers X-Key")
	_, second := caddytest.NewMember(t, "two")
	var mu sync.Mutex
	asked := make(map[string]bool)
	hang := make(chan struct{})
	one.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		key := x.R.Header.Get("X-Key")
		if key == "" || key == "known" {
			x.Result(`{"resultType":"complete","ttlMs":3600000,"cacheScope":"private","tools":[{"name":"item","inputSchema":{"type":"object"}}]}`)
			return
		}
		mu.Lock()
		asked[key] = true
		mu.Unlock()
		select {
		case <-hang:
		case <-x.R.Context().Done():
		}
	})
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}, "gate 10s"))
	t.Cleanup(func() { close(hang) }) // before Caddy and the server end
	fixture.New(t, p.URL, scripted.Modern, "").AwaitList(scripted.ToolsList, "all tools", func(a *fixture.Answer) bool { return len(a.Items("tools")) == 3 })

	var strangers sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	for n := range places + 10 {
		c := fixture.NewModern(t, p.URL, "")
		c.ComeFrom("127.0.0.2")
		c.Header.Set("X-Key", strconv.Itoa(n))
		strangers.Go(func() { _, _ = c.TryList(ctx, scripted.ToolsList) }) // which they leave before its end
	}
	fixture.Await(t, fmt.Sprintf("%d strangers whom the server lets hang", places), func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(asked) >= places
	})
	leave() // the server goes on being asked for them
	strangers.Wait()
	for n, revision := range []string{scripted.Modern, scripted.LatestLegacy} {
		c := fixture.New(t, p.URL, revision, "")
		c.Header.Set("X-Key", "known")
		if a := c.List(scripted.ToolsList); len(a.Items("tools")) != 3 {
			t.Errorf("list %d of a caller from elsewhere gave %s: %.300s", n, a, a.Body)
		}
	}
}
