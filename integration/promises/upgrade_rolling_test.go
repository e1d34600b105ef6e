package promises

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// steadyClients are clients that list and call as fast as they are answered.
type steadyClients struct {
	*site

	stop context.CancelFunc
	done sync.WaitGroup

	lists, calls, sessions, failed atomic.Int64
}

// startSteadyClients starts six clients at an endpoint. Two of them open a new session before each list.
func startSteadyClients(s *site, url string) *steadyClients {
	s.T.Helper()
	ctx, stop := context.WithCancel(context.Background())
	all := &steadyClients{site: s, stop: stop}
	for n := range 6 {
		c := fixture.New(s.T, url, s.clientRevision, "")
		s.awaitMark(c, "v1")
		all.done.Go(func() { all.run(ctx, c, n%3 == 0) })
	}
	s.T.Cleanup(all.end)
	return all
}

// run lists and calls until ctx ends.
func (all *steadyClients) run(ctx context.Context, c *fixture.Raw, comesAnew bool) {
	for ctx.Err() == nil {
		if comesAnew && !c.Modern() {
			a, err := c.TryAgain(ctx)
			if all.check(ctx, "initialize", a, err, c.Session != "") {
				all.sessions.Add(1)
			}
		}
		a, err := c.TryList(ctx, scripted.ToolsList)
		if all.check(ctx, "a list", a, err, err == nil && all.isWhole(a, "v1")) {
			all.lists.Add(1)
		}
		a, err = c.TryCall(ctx, "tools/call", c.Params(fmt.Sprintf(`"name":%q,"arguments":{}`, all.named("item-0000"))))
		if all.check(ctx, "a call", a, err, err == nil && isCalled(a, "item-0000")) {
			all.calls.Add(1)
		}
	}
}

// check fails the test if an answer is not as it should be, unless the client was stopped meanwhile.
func (all *steadyClients) check(ctx context.Context, what string, a *fixture.Answer, err error, ok bool) bool {
	if ok || ctx.Err() != nil {
		return ok
	}
	if all.failed.Add(1) < 5 {
		if err != nil {
			all.T.Errorf("%s fails: %v", what, err)
		} else {
			all.T.Errorf("%s is %s", what, a)
		}
	}
	return false
}

// awaitMore waits until the clients have got so many more lists and calls each.
func (all *steadyClients) awaitMore(n int64) {
	all.T.Helper()
	lists, calls := all.lists.Load()+n, all.calls.Load()+n
	fixture.AwaitFor(all.T, 4*fixture.Deadline, "more lists and calls", func() bool { return all.lists.Load() >= lists && all.calls.Load() >= calls || all.failed.Load() > 0 })
}

// end stops the clients.
func (all *steadyClients) end() {
	all.stop()
	all.done.Wait()
}

// TestUpgradeOneByOne has clients list, call and open sessions through a Caddy that spreads their requests
// over two others at one Redis. Another release takes the place of one of those, and then of the other, as
// the page says. No request fails.
func TestUpgradeOneByOne(t *testing.T) {
	bothWays(t, func(t *testing.T, caddys upgrade) {
		inPlacesOf(t, overRedis, func(t *testing.T, s *site) {
			switch {
			case s.endsWithItsProcess():
				t.Skip("these sessions end with the Caddy that has the program's process")
			case s.program && caddys.from != "" && !strings.Contains(caddytest.ReadPage(t, released(t).file("CHANGELOG.md")), "shutdown_delay"):
				t.Skip("programs of the last release end when shutdown_delay begins, as CHANGELOG.md says")
			}
			s.before = healthCheck
			s.SetScript("tools/call", func(x *scripted.Exchange) {
				time.Sleep(50 * time.Millisecond) // so that some are under way at any time
				x.Default()
			})
			var both []*instance
			for _, name := range []string{"a", "b"} {
				i := caddys.newInstance(t, caddys.from)
				i.globals += "\n\tshutdown_delay 2s"
				s.startTogether(i, name)
				both = append(both, i)
			}
			front := startInstanceOf(t, "front", fmt.Sprintf("reverse_proxy %s %s {\n\t\thealth_uri /health\n\t\thealth_interval 100ms\n\t}", both[0].addr, both[1].addr))
			clients := startSteadyClients(s, front.URL)
			clients.awaitMore(20)
			for n, name := range []string{"a", "b"} {
				both[n].Stop(t)
				both[n].binary = caddys.to
				s.startTogether(both[n], name)
				clients.awaitMore(20)
			}
			clients.end()
			t.Logf("%d lists, %d calls and %d new sessions; %d failed", clients.lists.Load(), clients.calls.Load(), clients.sessions.Load(), clients.failed.Load())
		})
	})
}

// startTogether starts an instance at the Redis of the site, and waits until it has all lists.
func (s *site) startTogether(i *instance, name string) {
	s.T.Helper()
	i.start(name, s.body())
	i.awaitFleetOf(s.handler(), "together")
	fixture.Await(s.T, "its lists", func() bool { _, ready := s.kinds(i); return ready })
}
