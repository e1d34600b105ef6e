package lists

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestRedeployedModernServer has a modern server refuse to be listened to, as a replica
// from before does, or announce nothing, until it was redeployed: then the feed listens,
// and clients are given what is announced at once.
func TestRedeployedModernServer(t *testing.T) {
	for name, c := range map[string]struct{ before, after func(*caddytest.World) }{
		"it refused": {
			func(w *caddytest.World) {
				w.SetScript("subscriptions/listen", func(x *scripted.Exchange) {
					x.Error(http.StatusNotFound, -32601, "Method not found")
				})
			},
			func(w *caddytest.World) { w.SetScript("subscriptions/listen", nil) },
		},
		"it announced nothing": {
			func(w *caddytest.World) { w.SetCapabilities(`{"tools":{},"prompts":{},"resources":{}}`) },
			func(w *caddytest.World) {
				w.SetCapabilities(`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetRevisions(scripted.Modern)
			w.SetHints(`"ttlMs":3600000`)
			c.before(w)
			w.Start("ttl discover 300ms", "max_ttl discover 300ms", "refresh 10ms")
			client := w.Client(scripted.Modern)
			client.Settle(scripted.ToolsList)
			w.Mark(scripted.ToolsList, "v2")
			caddytest.WantHit(t, client.List(scripted.ToolsList), scripted.ToolsList, "v1") // nobody has heard of it
			c.after(w)
			fixture.Await(t, "the feed's stream", func() bool {
				return w.Streams(func(s scripted.StreamInfo) bool { return s.Feed && s.Modern }) > 0
			})
			w.Mark(scripted.ToolsList, "v3")
			w.Changed(scripted.Feeds, scripted.ToolsList)
			client.AwaitList(scripted.ToolsList, "what was announced", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v3") })
		})
	}
}
