package exchange

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound/inboundtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestDeviatingRequests forwards every request as it came that an endpoint in front of several servers, and a program,
// refuse. The tests of the same name do that in front of those.
func TestDeviatingRequests(t *testing.T) {
	f := newFace(t, config{Admit: "all"})
	f.pinned(t, revision.LatestModern, cache.Public, time.Hour, 0, "cached")
	as := func(*http.Request) {}
	const url = "http://localhost/mcp"
	wantHitAfter(t, f, inboundtest.Right.Name, inboundtest.Right.To(t.Context(), url), as)
	forwarded := map[inbound.Deviation]bypass{
		inbound.Batch: "batch", inbound.Ambiguous: "ambiguous", inbound.Invalid: "invalid",
		inbound.NoRevision: "revision", inbound.OtherRevision: "revision", inbound.NoCapabilities: "revision", inbound.OtherMethod: "revision",
	}
	for _, q := range inboundtest.Deviating() {
		wantBypassAfter(t, f, q.Name, q.To(t.Context(), url), as, forwarded[q.Deviation])
	}
}
