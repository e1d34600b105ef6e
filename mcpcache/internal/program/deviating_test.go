package program

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound/inboundtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// TestDeviatingRequests refuses every request that a program need not understand as others do, without a process that would
// answer it. An endpoint in front of several servers refuses the same requests, see the test of the same name there.
func TestDeviatingRequests(t *testing.T) {
	codes := map[inbound.Deviation]int{
		inbound.Batch: jsonrpc.InvalidRequest, inbound.Ambiguous: jsonrpc.InvalidRequest, inbound.Invalid: jsonrpc.InvalidRequest,
		inbound.NoRevision: jsonrpc.InvalidParams, inbound.NoCapabilities: jsonrpc.InvalidParams,
		inbound.OtherRevision: jsonrpc.HeaderMismatch, inbound.OtherMethod: jsonrpc.HeaderMismatch,
	}
	x := newProgram(t, usual, "modern")
	const url = "http://program/mcp"
	for _, q := range inboundtest.Deviating() {
		res, err := x.RoundTrip(q.To(t.Context(), url))
		if err != nil {
			t.Fatal(err)
		}
		body := read(t, res)
		refusal, err := message.ParseResponse([]byte(body))
		if err != nil || refusal.Error == nil || refusal.Error.Code != codes[q.Deviation] || res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want 400 and %d", q.Name, res.StatusCode, body, codes[q.Deviation])
		}
	}
	if started := x.started(); len(started) > 0 {
		t.Errorf("processes %d were started", started)
	}
	res, err := x.RoundTrip(inboundtest.Right.To(t.Context(), url))
	if err != nil {
		t.Fatal(err)
	}
	if body := read(t, res); res.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %s", inboundtest.Right.Name, res.StatusCode, body)
	}
}
