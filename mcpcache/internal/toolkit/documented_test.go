package toolkit

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
)

// TestEveryStatusIsDocumented looks for what Cache-Status can say of a toolkit on the page.
func TestEveryStatusIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	e := &Endpoint{quoted: "mcp_cache"}
	for _, said := range []string{
		string((&visit{endpoint: e, outcome: exchange.OutcomeHit, left: 297 * time.Second}).AppendStatus(nil)),
		string((&visit{endpoint: e, outcome: exchange.OutcomeMiss}).AppendStatus(nil)),
		string((&visit{endpoint: e, outcome: exchange.OutcomeStale, left: -12 * time.Second, status: statusStale}).AppendStatus(nil)),
		string((&visit{endpoint: e, outcome: exchange.OutcomeHit, status: statusPartial}).AppendStatus(nil)),
		e.quoted + statusRouted,
		e.quoted + statusOwn,
		e.quoted + statusOrigin,
		e.quoted + statusRefused,
	} {
		if !strings.Contains(string(page), "`"+said+"`") {
			t.Errorf("the page does not say %s", said)
		}
	}
}
