package integration

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestCallersSeeWhatTheyChanged has calls change a list that the upstream never
// announces. Once that was found out, each caller's own next list, and the one
// after it, have what its call has changed, however fast calls follow each other;
// whoever only lists has hits.
func TestCallersSeeWhatTheyChanged(t *testing.T) {
	w := newUpstream(t)
	w.SetCapabilities(`{"tools":{}}`)
	var version atomic.Int64
	var idle atomic.Bool
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		if !idle.Load() {
			w.mark(toolsList, fmt.Sprintf("change %d", version.Add(1)))
		}
		x.Default()
	})
	w.start()
	caller := w.client(scripted.LatestLegacy)
	caller.Settle(toolsList)
	call := func() (mark string) {
		caller.Call("tools/call", caller.Params(`"name":"item-0000"`))
		return fmt.Sprintf("change %d", version.Load())
	}
	mark := call()
	caller.AwaitList(toolsList, "the first change", func(a *fixture.Answer) bool { return markOf(a, toolsList) == mark })
	for range 50 {
		if mark = call(); version.Load()%5 == 0 {
			mark = call() // twice without a list
		}
		for i, a := range []*fixture.Answer{caller.List(toolsList), caller.List(toolsList)} {
			if a.Status != http.StatusOK || markOf(a, toolsList) != mark {
				t.Errorf("list %d after %s is %s", i+1, mark, describe(a))
			}
		}
	}
	// That nothing was changed by one call says nothing about the next.
	caller.Settle(toolsList)
	idle.Store(true)
	before := w.host.CountFeed(toolsList)
	call()
	await(t, "the feed's list", func() bool { return w.host.CountFeed(toolsList) > before })
	caller.Settle(toolsList)
	before = w.host.CountFeed(toolsList)
	call()
	await(t, "the feed's list", func() bool { return w.host.CountFeed(toolsList) > before })
	idle.Store(false)
	if mark = call(); markOf(caller.List(toolsList), toolsList) != mark {
		t.Errorf("%s is not seen after a call that changed nothing", mark)
	}
	other := w.client(scripted.LatestLegacy)
	wantHit(t, other.Settle(toolsList), toolsList, mark)
	wantHit(t, other.List(toolsList), toolsList, mark)
}
