package toolkit

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
)

// TestEveryStatusIsDocumented looks for what Cache-Status can say of a toolkit on the page.
func TestEveryStatusIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	e := &Endpoint{status: outcome.NewCacheStatus("mcp_cache")}
	for _, said := range []string{
		string((&request{viewer: viewer{endpoint: e}, outcome: outcome.Hit, left: 297 * time.Second}).AppendStatus(nil)),
		string((&request{viewer: viewer{endpoint: e}, outcome: outcome.Miss}).AppendStatus(nil)),
		string((&request{viewer: viewer{endpoint: e}, outcome: outcome.Stale, left: -12 * time.Second, status: statusStale}).AppendStatus(nil)),
		string((&request{viewer: viewer{endpoint: e}, outcome: outcome.Hit, status: statusPartial}).AppendStatus(nil)),
		e.status.Name + statusRouted,
		e.status.Name + statusOwn,
		e.status.Name + statusOrigin,
		e.status.Name + statusRefused,
	} {
		if !strings.Contains(string(page), "`"+said+"`") {
			t.Errorf("the page does not say %s", said)
		}
	}
}
