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
		w.SetHints(privateHour)
		w.start()
		anybody := w.client(revision)
		anybody.Settle(toolsList)
		for i := range 5 {
			w.SetPrivateList(auth(i), toolsList, scripted.Items(toolsList, auth(i), 5))
			own := w.clientAs(revision, auth(i))
			if a := own.List(toolsList); markOf(a, toolsList) != auth(i) {
				t.Errorf("%s is given %s", auth(i), describe(a))
			}
			wantHit(t, own.List(toolsList), toolsList, auth(i))
			wantHit(t, anybody.List(toolsList), toolsList, "v1")
		}
	})
}
