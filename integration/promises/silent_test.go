package promises

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestCallersSeeWhatTheyChanged has calls change a list that the upstream never
// announces. Once that was found out, each caller's own next list, and the one
// after it, have what its call has changed, however fast calls follow each other;
// whoever only lists has hits.
func TestCallersSeeWhatTheyChanged(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetCapabilities(`{"tools":{}}`)
	var version atomic.Int64
	var idle atomic.Bool
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		if !idle.Load() {
			w.Mark(scripted.ToolsList, fmt.Sprintf("change %d", version.Add(1)))
		}
		x.Default()
	})
	w.Start()
	caller := w.Client(scripted.LatestLegacy)
	caller.Settle(scripted.ToolsList)
	call := func() (mark string) {
		caller.Call("tools/call", caller.Params(`"name":"item-0000"`))
		return fmt.Sprintf("change %d", version.Load())
	}
	mark := call()
	caller.AwaitList(scripted.ToolsList, "the first change", func(a *fixture.Answer) bool { return caddytest.MarkOf(a, scripted.ToolsList) == mark })
	for range 50 {
		if mark = call(); version.Load()%5 == 0 {
			mark = call() // twice without a list
		}
		for i, a := range []*fixture.Answer{caller.List(scripted.ToolsList), caller.List(scripted.ToolsList)} {
			if a.Status != http.StatusOK || caddytest.MarkOf(a, scripted.ToolsList) != mark {
				t.Errorf("list %d after %s is %s", i+1, mark, a)
			}
		}
	}
	// That nothing was changed by one call says nothing about the next.
	caller.Settle(scripted.ToolsList)
	idle.Store(true)
	before := w.Host.CountFeed(scripted.ToolsList)
	call()
	fixture.Await(t, "the feed's list", func() bool { return w.Host.CountFeed(scripted.ToolsList) > before })
	caller.Settle(scripted.ToolsList)
	before = w.Host.CountFeed(scripted.ToolsList)
	call()
	fixture.Await(t, "the feed's list", func() bool { return w.Host.CountFeed(scripted.ToolsList) > before })
	idle.Store(false)
	if mark = call(); caddytest.MarkOf(caller.List(scripted.ToolsList), scripted.ToolsList) != mark {
		t.Errorf("%s is not seen after a call that changed nothing", mark)
	}
	other := w.Client(scripted.LatestLegacy)
	caddytest.WantHit(t, other.Settle(scripted.ToolsList), scripted.ToolsList, mark)
	caddytest.WantHit(t, other.List(scripted.ToolsList), scripted.ToolsList, mark)
}

// TestCallersSeeTheFirstChange has calls follow each other without a list between them, so that the feed does not look, and the last of
// them change a list that the server never announces: the caller's next list has the change, also of a server that was not
// caught at that before.
func TestCallersSeeTheFirstChange(t *testing.T) {
	for _, in := range []column{ofOne, ofPrograms} {
		for _, era := range eras {
			for _, at := range placesOf(in, era) {
				if at.several || era == across {
					continue // where nothing tells who has called, or calls fail
				}
				t.Run(at.String(), func(t *testing.T) {
					s := newSite(t, at)
					s.SetCapabilities(`{"tools":{}}`)
					var changes atomic.Bool
					s.SetScript("tools/call", func(x *scripted.Exchange) {
						if changes.Load() {
							s.Mark(scripted.ToolsList, "changed")
						}
						x.Default()
					})
					s.begin()
					authorization := "" // its session tells who has called
					if s.clientRevision == scripted.Modern {
						authorization = "Bearer caller"
					}
					c := s.settled(authorization)[0]
					before := s.Host.Count(scripted.ToolsList)
					s.call(c, "item-0000")
					fixture.Await(t, "the look of the feed", func() bool { return s.Host.Count(scripted.ToolsList) > before })
					s.call(c, "item-0000")
					changes.Store(true)
					s.call(c, "item-0000")
					time.Sleep(500 * time.Millisecond) // since when a notice is not waited for any longer
					if a := c.List(scripted.ToolsList); !s.isWhole(a, "changed") {
						t.Errorf("after its call, the caller is given %s", a)
					}
				})
			}
		}
	}
}

// TestEveryoneSeesAChange has calls change a list that the server never announces, when the feed does not look any more, and
// nothing tells who has called. Whoever lists then may be given the old list, which has the feed look.
func TestEveryoneSeesAChange(t *testing.T) {
	for _, in := range []column{ofOne, ofSeveral, ofPrograms} {
		for _, era := range eras {
			for _, at := range placesOf(in, era) {
				if !at.several && at.clientRevision != scripted.Modern || !at.several && era == across {
					continue // where sessions tell who has called, or calls fail
				}
				t.Run(at.String(), func(t *testing.T) {
					s := newSite(t, at)
					s.SetCapabilities(`{"tools":{}}`)
					var changes atomic.Int64
					s.SetScript("tools/call", func(x *scripted.Exchange) {
						if n := changes.Load(); n > 0 {
							s.Mark(scripted.ToolsList, fmt.Sprint("change ", n))
						}
						x.Default()
					})
					s.begin()
					c := s.settled("")[0]
					before := s.Host.Count(scripted.ToolsList)
					s.call(c, "item-0000")
					fixture.Await(t, "the look of the feed", func() bool { return s.Host.Count(scripted.ToolsList) > before })
					for n := range 10 {
						s.call(c, "item-0000")
						changes.Add(1)
						s.call(c, "item-0000")
						s.awaitMark(c, fmt.Sprint("change ", n+1))
					}
				})
			}
		}
	}
}

// TestOwnListsCauseNoLooks has a caller call and list in turn whose list is its own, and comes from the server after each call: the
// feed, which is given another one, does not ask besides.
func TestOwnListsCauseNoLooks(t *testing.T) {
	s := newSite(t, place{clientRevision: scripted.LatestLegacy, serverRevision: scripted.LatestLegacy})
	s.SetCapabilities(`{"tools":{}}`)
	s.begin()
	c := s.settled("Bearer caller")[0]
	s.call(c, "unknown")
	before, feeds := s.Host.Count(scripted.ToolsList), s.Host.CountFeed(scripted.ToolsList)
	const rounds = 10
	for range rounds {
		if a := c.List(scripted.ToolsList); !s.isWhole(a, "v1") {
			t.Errorf("a list is %s", a)
		}
		if a := s.call(c, "unknown"); a.ErrorCode() != -32602 {
			t.Errorf("a call gave %s", a)
		}
	}
	if n := s.Host.Count(scripted.ToolsList) - before; n != rounds || s.Host.CountFeed(scripted.ToolsList) != feeds {
		t.Errorf("%d lists of a client had the server asked for %d, of these %d by the feed", rounds, n, s.Host.CountFeed(scripted.ToolsList)-feeds)
	}
}
