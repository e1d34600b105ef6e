package integration

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestListsOfOthersTellNothing has callers with credentials of their own list in
// turns with one that shares the feed's: what they are given says nothing of what
// clients like them are given without credentials.
func TestListsOfOthersTellNothing(t *testing.T) {
	eachEra(t, func(t *testing.T, revision string) {
		w := newUpstream(t)
		w.SetHints(scripted.PrivateHour)
		w.start()
		anybody := w.client(revision)
		anybody.Settle(scripted.ToolsList)
		for i := range 5 {
			w.SetPrivateList(auth(i), scripted.ToolsList, scripted.Items(scripted.ToolsList, auth(i), 5))
			own := w.clientAs(revision, auth(i))
			if a := own.List(scripted.ToolsList); markOf(a, scripted.ToolsList) != auth(i) {
				t.Errorf("%s is given %s", auth(i), a)
			}
			wantHit(t, own.List(scripted.ToolsList), scripted.ToolsList, auth(i))
			wantHit(t, anybody.List(scripted.ToolsList), scripted.ToolsList, "v1")
		}
	})
}
