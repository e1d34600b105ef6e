package integration

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestRedeployedModernServer has a modern server refuse to be listened to, as a replica
// from before does, or announce nothing, until it was redeployed: then the feed listens,
// and clients are given what is announced at once.
func TestRedeployedModernServer(t *testing.T) {
	for name, c := range map[string]struct{ before, after func(*world) }{
		"it refused": {
			func(w *world) {
				w.SetScript("subscriptions/listen", func(x *scripted.Exchange) {
					x.Error(http.StatusNotFound, -32601, "Method not found")
				})
			},
			func(w *world) { w.SetScript("subscriptions/listen", nil) },
		},
		"it announced nothing": {
			func(w *world) { w.SetCapabilities(`{"tools":{},"prompts":{},"resources":{}}`) },
			func(w *world) {
				w.SetCapabilities(`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newUpstream(t)
			w.SetRevisions(scripted.Modern)
			w.SetHints(`"ttlMs":3600000`)
			c.before(w)
			w.start("ttl discover 300ms", "max_ttl discover 300ms", "refresh 10ms")
			client := w.client(scripted.Modern)
			client.Settle(scripted.ToolsList)
			w.mark(scripted.ToolsList, "v2")
			wantHit(t, client.List(scripted.ToolsList), scripted.ToolsList, "v1") // nobody has heard of it
			c.after(w)
			fixture.Await(t, "the feed's stream", func() bool {
				return w.Streams(func(s scripted.StreamInfo) bool { return s.Feed && s.Modern }) > 0
			})
			w.mark(scripted.ToolsList, "v3")
			w.Changed(scripted.Feeds, scripted.ToolsList)
			client.AwaitList(scripted.ToolsList, "what was announced", func(a *fixture.Answer) bool { return isHit(a, scripted.ToolsList, "v3") })
		})
	}
}
