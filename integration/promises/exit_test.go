package promises

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// healthCheck answers 503 once Caddy was told to end, and 200 before.
const healthCheck = `handle /health {
	@leaving vars {http.shutting_down} true
	respond @leaving 503
	respond 200
}`

// startLeaving starts a Caddy of the site that takes requests for that long after it was told to end.
func (s *site) startLeaving(delay string) *instance {
	s.T.Helper()
	s.before = healthCheck
	i := newInstance(s.T)
	i.globals = "shutdown_delay " + delay
	i.start("", s.body())
	s.caddys = []siteAt{i.siteAt()}
	return i
}

// isLeaving reports whether the health check says that Caddy is to end.
func (i *instance) isLeaving() bool {
	i.t.Helper()
	res, err := http.Get("http://" + i.addr + "/health")
	if err != nil {
		i.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusServiceUnavailable
}

// TestShutdownDelay tells a Caddy with a shutdown_delay to end. Clients notice nothing before the delay is
// over. Then Caddy waits for no client that listens to several servers or to a program.
func TestShutdownDelay(t *testing.T) {
	inEveryPlace(t, func(t *testing.T, s *site) {
		i := s.startLeaving("1h")
		c := s.settled("")[0]
		heard := c.Notices()
		i.Quit(t)
		fixture.Await(t, "the health check to fail", i.isLeaving)
		if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit || !s.isWhole(a, "v1") {
			t.Errorf("a list is %s", a)
		}
		if a := s.call(c, "item-0000"); !isCalled(a, "item-0000") {
			t.Errorf("a call is %s", a)
		}
		s.change("v2")
		heard.Await("notifications/tools/list_changed")
		s.awaitMark(c, "v2")
		s.clients("") // others come

		if s.several || s.program {
			i = s.startLeaving("10ms")
			heard = s.clients("")[0].Notices()
			i.Stop(t)
			heard.AwaitEnd()
		}
	})
}
