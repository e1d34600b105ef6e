package lists

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestListsOfOthersTellNothing lets callers with credentials of their own list in turns with a
// caller who shares the feed's. The lists of the first say nothing about the lists that similar
// clients get without credentials.
func TestListsOfOthersTellNothing(t *testing.T) {
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := caddytest.NewUpstream(t)
		w.SetHints(scripted.PrivateHour)
		w.Start()
		anybody := w.Client(revision)
		anybody.Settle(scripted.ToolsList)
		for i := range 5 {
			w.SetPrivateList(auth(i), scripted.ToolsList, scripted.Items(scripted.ToolsList, auth(i), 5))
			own := w.ClientAs(revision, auth(i))
			if a := own.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != auth(i) {
				t.Errorf("%s is given %s", auth(i), a)
			}
			caddytest.WantHit(t, own.List(scripted.ToolsList), scripted.ToolsList, auth(i))
			caddytest.WantHit(t, anybody.List(scripted.ToolsList), scripted.ToolsList, "v1")
		}
	})
}
