package promises

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestFleetSurvivesOddLines has a proxy in front of Redis send lines of its own, as proxies do
// before they close a connection. Caddy keeps serving its lists, and joins the other Caddy again.
func TestFleetSurvivesOddLines(t *testing.T) {
	redis := redistest.Start(t)
	between := redistest.NewProxy(t, redis.Addr)
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicHour)
	w.Host.Start()
	a := startInstance(t, w.Host.URL, "store redis "+between.URL)
	b := startInstance(t, w.Host.URL, "store redis "+redis.URL)
	c := fixture.NewModern(t, a.URL, "")
	c.Settle(scripted.ToolsList)
	together := func() bool {
		status := a.status()
		return status != nil && status.Fleet.State == "together" && len(status.Fleet.Members) == 2
	}
	for _, text := range []string{"-ERR max number of clients reached\r\n", "-LOADING Redis is loading\r\n", "+OK\r\n", "$-77\r\n", "*9223372036854775807\r\n", "HTTP/1.0 503\r\n\r\n", "\x00\x00\r\n"} {
		fixture.Await(t, "both to be together", together)
		if n := between.Say(text); n == 0 {
			t.Errorf("there is no connection on which %q could be said", text)
		}
		if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit {
			t.Errorf("after %q a list gave %s", text, a)
		}
	}
	fixture.Await(t, "both to be together again", together)
	w.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "new", 4))
	fixture.Await(t, "the feeds' streams", func() bool { return w.Streams(scripted.Feeds) >= 2 })
	w.Changed(scripted.Feeds, scripted.ToolsList)
	for _, i := range []*instance{a, b} {
		fixture.NewModern(t, i.URL, "").AwaitList(scripted.ToolsList, "the new list", func(a *fixture.Answer) bool { return len(a.Items("tools")) == 4 })
	}
}

// TestFleetIsThereLater starts a Caddy before it can reach Redis, as happens when a whole machine or a
// name server has just started, and while the server is down. Once Redis is there, it has the lists
// of the others.
func TestFleetIsThereLater(t *testing.T) {
	for _, several := range []bool{false, true} {
		at := place{fleet: true, several: several, clientRevision: scripted.Modern, serverRevision: scripted.Modern}
		t.Run(at.String(), func(t *testing.T) {
			s := newSite(t, at)
			s.common = []string{"admit all"}
			s.begin()
			s.settled("")
			s.Host.Kill()

			_, url, _ := strings.Cut(s.redis, "redis://")
			between := redistest.NewProxy(t, "127.0.0.1:1") // where nobody is
			s.redis = "store redis " + between.URL
			late := startInstanceOf(t, "late", s.body())
			late.awaitFleetOf(s.handler(), "away")
			between.Lead(url)
			fixture.NewModern(t, late.URL, "").AwaitList(scripted.ToolsList, "the list of the others", func(a *fixture.Answer) bool {
				return caddytest.IsStale(a) && s.isWhole(a, "v1")
			})
		})
	}
}

// TestFleetFollowsTheName has another Redis take over from the one that a name leads to. The old one
// becomes a replica, keeps its connections, and refuses what Caddys do there. They are together
// again at the new one, and tell each other of changes, without a new configuration.
func TestFleetFollowsTheName(t *testing.T) {
	for name, after := range map[string]func(old *redistest.Server){
		"the old one is a replica": func(*redistest.Server) {},
		"the old one has lost the new one": func(old *redistest.Server) {
			old.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
			old.Do("REPLICAOF", "127.0.0.1", "1") // where nobody is
		},
	} {
		t.Run(name, func(t *testing.T) {
			old, next := redistest.Start(t), redistest.Start(t)
			between := redistest.NewProxy(t, old.Addr)
			s := startSharingAt(t, old, between.URL, hour, scripted.Modern, scripted.LatestLegacy)
			all := s.audiences()
			awaitHits(all, "v1")
			next.Succeed(old)
			after(old)
			for _, m := range all {
				fixture.Await(t, "the reason in the status", func() bool {
					status := m.status()
					return status != nil && status.Fleet.State == "away" && strings.Contains(status.Fleet.Failure, "redis is a read-only replica")
				})
			}
			between.Lead(next.Addr)
			for _, m := range all {
				fixture.Await(t, "all to be together at the new Redis", func() bool {
					status := m.status()
					return status != nil && status.Fleet.State == "together" && len(status.Fleet.Members) == len(all) &&
						strings.Count(next.Do("CLIENT", "LIST", "TYPE", "pubsub"), " sub=1 ") == len(all)
				})
			}
			awaitHits(all, "v1")
			s.change("v2", all[0])
			for _, m := range all {
				m.wantNew(t, "v2")
				if n := strings.Count(strings.Join(m.Lines(), "\n"), `"msg":"redis is away`); n != 1 {
					t.Errorf("%d lines of %s say that it is away, want 1", n, m.name)
				}
			}
		})
	}
}

// TestFleetAnnouncesAgain has the server tell one client of a change, and the announcement of its Caddy
// fail. The client hears of the change once the other Caddy has heard, so no list there is old.
func TestFleetAnnouncesAgain(t *testing.T) {
	redis := redistest.Start(t)
	between := redistest.NewProxy(t, redis.Addr)
	for name, fail := range map[string]func(net.Conn){
		"all connections break": between.Cut,
		"redis is loading":      func(c net.Conn) { _, _ = io.WriteString(c, "-LOADING Redis is loading the dataset in memory\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetHints(scripted.PublicHour)
			w.Host.Start()
			s := &sharing{World: w, redis: redis}
			var all []*audience
			for _, addr := range []string{between.Addr, redis.Addr} {
				one := startInstance(t, w.Host.URL, "store redis redis://"+addr, "refresh 10ms")
				one.awaitFleet("together")
				all = append(all, s.hear(addr, one))
			}
			awaitHits(all, "v1")
			for round := range caddytest.Pick(6, 30) {
				fixture.Await(t, "both to be together", func() bool {
					status := all[0].status()
					return status != nil && status.Fleet.State == "together" && len(status.Fleet.Members) == 2
				})
				mark := fmt.Sprint("round ", round)
				between.FailNext(`{"kinds":`, fail)
				s.change(mark, all[0])
				all[1].wantNew(t, mark)
				awaitHits(all, mark)
			}
		})
	}
}
