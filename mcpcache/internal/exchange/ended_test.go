package exchange

import (
	"io"
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestInitializeOutlivesItsConfiguration has a session opened by a request that
// has been under way since before its configuration ended: there is no feed of
// that revision, and none can start any more.
func TestInitializeOutlivesItsConfiguration(t *testing.T) {
	f := newFace(t, config{})
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		f.backend.Feeds.Stop()
		w.Header().Set("Mcp-Session-Id", "late")
		return respond(w, r, []byte(`{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`))
	})
	r := post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	answer := f.serve(t, r).Result()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || answer.Header.Get("Mcp-Session-Id") != "late" {
		t.Errorf("initialize gave %d, %s, %v", answer.StatusCode, body, err)
	}
	if f.backend.Feeds.Of(revision.V20250618) != nil {
		t.Error("a feed has started")
	}
}
