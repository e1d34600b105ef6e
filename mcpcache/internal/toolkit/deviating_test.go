package toolkit

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound/inboundtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
)

// TestDeviatingRequests refuses every request that several servers might not understand alike. In front of one server the
// same requests are forwarded, see the test of the same name there.
func TestDeviatingRequests(t *testing.T) {
	codes := map[inbound.Deviation]int{
		inbound.Batch: jsonrpc.InvalidRequest, inbound.Ambiguous: jsonrpc.InvalidRequest, inbound.Invalid: jsonrpc.ParseError,
		inbound.NoRevision: jsonrpc.InvalidParams, inbound.NoCapabilities: jsonrpc.InvalidParams,
		inbound.OtherRevision: jsonrpc.HeaderMismatch, inbound.OtherMethod: jsonrpc.HeaderMismatch,
	}
	run(t, func(w *world) {
		c := w.calls(modern)
		const url = "http://site.test/mcp"
		c.send(inboundtest.Right.To(t.Context(), url)).want(w, inboundtest.Right.Name, http.StatusOK, 0)
		for _, q := range inboundtest.Deviating() {
			c.send(q.To(t.Context(), url)).want(w, q.Name, http.StatusBadRequest, codes[q.Deviation])
		}
	}, serves("one"))
}
