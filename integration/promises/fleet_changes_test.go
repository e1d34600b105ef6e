package promises

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// hour is a ttlMs for lists that are not due before a test ends.
const hour = 3600_000

// audience is an instance of a fleet with clients: one that is told of changes, and one of each era
// that lists.
type audience struct {
	*instance

	name   string
	told   *fixture.Raw
	stream *fixture.Stream
	list   []*fixture.Raw
}

// audiences returns the instances with clients, once each gets hits.
func (s *sharing) audiences() (all []*audience) {
	s.T.Helper()
	for name, one := range s.instances {
		all = append(all, s.hear(name, one))
	}
	return all
}

// hear returns clients of an instance, one of which hears of changes.
func (s *sharing) hear(name string, one *instance) *audience {
	s.T.Helper()
	m := &audience{instance: one, name: name, told: fixture.New(s.T, one.URL, scripted.LatestLegacy, "")}
	m.told.Settle(scripted.ToolsList)
	m.stream = m.told.Notices()
	fixture.Await(s.T, "the stream", func() bool { return s.Streams(scripted.Session(m.told.Session)) == 1 })
	m.list = []*fixture.Raw{fixture.NewModern(s.T, one.URL, ""), fixture.New(s.T, one.URL, scripted.LatestLegacy, "")}
	return m
}

// change changes the tools, and has one client told of it, and no feed. It returns how long it
// took until the client was.
func (s *sharing) change(mark string, m *audience) time.Duration {
	s.T.Helper()
	s.Mark(scripted.ToolsList, mark)
	begun := time.Now()
	s.Changed(scripted.Session(m.told.Session), scripted.ToolsList)
	m.stream.Await("notifications/tools/list_changed")
	return time.Since(begun)
}

// wantNew fails if a list at an instance is not the one of that mark.
func (m *audience) wantNew(t *testing.T, mark string) {
	t.Helper()
	for _, c := range m.list {
		if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != mark {
			t.Errorf("after %s was announced, a list at %s is %s", mark, m.name, a)
		}
	}
}

// refresh has the instance ask for all lists.
func (m *audience) refresh() {
	m.t.Helper()
	res, err := http.Post("http://"+m.admin+"/mcp_cache/mcp_cache/refresh", "", nil)
	if err != nil {
		m.t.Fatal(err)
	}
	_ = res.Body.Close()
}

// awaitHits waits until the instances answer with the list of that mark from memory.
func awaitHits(all []*audience, mark string) {
	for _, m := range all {
		for _, c := range m.list {
			c.AwaitList(scripted.ToolsList, "a hit of "+mark, func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, mark) })
		}
	}
}

// TestFleetHearsOfChanges tells one client at one instance of a change: lists at all others have
// it at once.
func TestFleetHearsOfChanges(t *testing.T) {
	s := startSharing(t, hour, scripted.Modern, scripted.LatestLegacy)
	all := s.audiences()
	awaitHits(all, "v1")
	s.change("v2", all[0]) // which waits until it is sure who there is
	awaitHits(all, "v2")
	alone := s.hear("alone", startNamed(t, "alone", s.Host.URL, "refresh 10ms"))
	before := s.Host.CountFeed(scripted.ToolsList)
	rounds := caddytest.Pick(50, 500)
	var took, without []time.Duration
	for round := range rounds {
		mark := fmt.Sprint("round ", round)
		teller := round % len(all)
		took = append(took, s.change(mark, all[teller]))
		for n := range all {
			all[(teller+1+n)%len(all)].wantNew(t, mark)
		}
		awaitHits(all, mark)
		without = append(without, s.change(mark, alone))
		awaitHits([]*audience{alone}, mark)
	}
	slices.Sort(took)
	slices.Sort(without)
	p50, p99 := rounds/2, rounds*99/100
	t.Logf("%d notices took %v, %v and %v (p50, p99, longest), without Redis %v, %v and %v", rounds,
		took[p50], took[p99], took[rounds-1], without[p50], without[p99], without[rounds-1])
	t.Logf("%.2f lists for each change, of %d instances and two eras", float64(s.Host.CountFeed(scripted.ToolsList)-before)/float64(rounds), len(all)+1)
}

// TestFleetAfterFlushes has Redis forget everything again and again: no list is old.
func TestFleetAfterFlushes(t *testing.T) {
	s := startSharing(t, hour, scripted.Modern, scripted.LatestLegacy)
	all := s.audiences()
	flushes := caddytest.Pick(5, 20)
	for round := range 10 * flushes {
		mark := fmt.Sprint("round ", round)
		awaitHits(all, caddytest.MarkOf(all[0].list[0].List(scripted.ToolsList), scripted.ToolsList))
		if round%10 == 0 {
			time.Sleep(rand.N(time.Second)) // at any time of what members say to each other
			s.redis.Do("FLUSHALL")
		}
		teller := round % len(all)
		s.change(mark, all[teller])
		for n := range all {
			all[(teller+1+n)%len(all)].wantNew(t, mark)
		}
	}
}

// TestFleetWithPausedInstance stops an instance for as long as a change takes to reach a client of
// another: as soon as it goes on, it gives the new list.
func TestFleetWithPausedInstance(t *testing.T) {
	s := startSharing(t, hour, scripted.Modern, scripted.LatestLegacy)
	all := s.audiences()
	for round := range caddytest.Pick(3, 20) {
		mark := fmt.Sprint("round ", round)
		teller, paused := all[round%len(all)], all[(round+1)%len(all)]
		awaitHits(all, caddytest.MarkOf(teller.list[0].List(scripted.ToolsList), scripted.ToolsList))
		signal := func(signal syscall.Signal) {
			if err := syscall.Kill(paused.PID, signal); err != nil {
				t.Fatal(err)
			}
		}
		signal(syscall.SIGSTOP)
		s.change(mark, teller)
		var asked sync.WaitGroup
		for _, c := range paused.list {
			asked.Go(func() {
				if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != mark {
					t.Errorf("who was paused gives %s", a)
				}
			})
		}
		signal(syscall.SIGCONT)
		asked.Wait()
		for _, m := range all {
			m.wantNew(t, mark)
		}
	}
}

// TestFleetWithoutRedis freezes Redis, and kills it, while clients list and changes are announced: no
// list fails, and none is old where the change was announced. Afterwards none is old anywhere.
func TestFleetWithoutRedis(t *testing.T) {
	for name, trouble := range map[string]struct{ begin, end func(*redistest.Server) }{
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw},
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Start},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSharing(t, hour, scripted.Modern, scripted.LatestLegacy)
			all := s.audiences()
			stop := s.listAll()
			defer stop()
			round := 0
			next := func(everywhere bool) {
				round++
				mark := fmt.Sprint("round ", round)
				teller := all[round%len(all)]
				s.change(mark, teller)
				teller.wantNew(t, mark)
				for _, other := range all {
					if everywhere {
						other.wantNew(t, mark)
					}
				}
			}
			next(true)
			trouble.begin(s.redis)
			for begun := time.Now(); time.Since(begun) < time.Duration(caddytest.Pick(4, 30))*time.Second; {
				next(false)
			}
			trouble.end(s.redis)
			begun := time.Now()
			for _, one := range all {
				one.awaitFleet("together")
			}
			t.Logf("%d changes; together again after %v", round, time.Since(begun).Round(time.Millisecond))
			for _, one := range all {
				fixture.Await(t, one.name+" to be a member", func() bool { return strings.Contains(s.redis.Do("HLEN", s.membersKey()), fmt.Sprint(3+len(all))) })
			}
			for range 10 {
				next(true)
			}
		})
	}
}

// listAll has clients list at all instances until the returned function is called. Every list has to
// be answered.
func (s *sharing) listAll() (stop func()) {
	ctx, cancel := context.WithCancel(s.T.Context())
	var lists atomic.Int64
	var all sync.WaitGroup
	for name, one := range s.instances {
		for _, revision := range []string{scripted.Modern, scripted.LatestLegacy} {
			c := fixture.New(s.T, one.URL, revision, "")
			c.Settle(scripted.ToolsList)
			all.Go(func() {
				for ctx.Err() == nil {
					if a := c.List(scripted.ToolsList); a.Status != http.StatusOK || caddytest.MarkOf(a, scripted.ToolsList) == "" {
						s.T.Errorf("at %s, a list is %s", name, a)
					}
					lists.Add(1)
				}
			})
		}
	}
	return func() {
		cancel()
		all.Wait()
		s.T.Logf("%d lists", lists.Load())
	}
}

// membersKey returns the key of the members in Redis.
func (s *sharing) membersKey() string {
	return strings.Trim(s.redis.Do("KEYS", "*:members"), "[]")
}

// TestFleetOfToolkits has toolkits tell their clients of what one has found changed, with and without a
// notice of the server: at the others, it is the new list.
func TestFleetOfToolkits(t *testing.T) {
	for _, revision := range []string{scripted.Modern, scripted.LatestLegacy} {
		t.Run(revision, func(t *testing.T) {
			w, redis := caddytest.NewUpstream(t), redistest.Start(t)
			w.SetRevisions(revision)
			w.SetHints(scripted.PublicHour)
			w.Host.Start()
			var all []*audience
			for _, name := range []string{"a", "b"} {
				one := startNamed(t, name, "", "store redis "+redis.URL, "admit all", "server one "+w.Host.URL+" {\n\t\trefresh 10ms\n\t}")
				m := &audience{instance: one, name: name}
				for _, of := range []string{scripted.Modern, scripted.LatestLegacy} {
					m.list = append(m.list, fixture.New(t, one.URL, of, ""))
				}
				all = append(all, m)
			}
			awaitHits(all, "v1")
			for _, m := range all {
				m.stream = fixture.New(t, m.URL, revision, "").Notices()
			}
			for round := range caddytest.Pick(10, 100) {
				mark, teller := fmt.Sprint("round ", round), all[round%2]
				w.Mark(scripted.ToolsList, mark)
				if round < len(all) {
					teller.refresh() // the board seldom tells clients of a change that no server announced
				} else {
					w.Changed(scripted.Everybody, scripted.ToolsList)
				}
				teller.stream.Await("notifications/tools/list_changed")
				other := all[(round+1)%2]
				other.wantNew(t, mark)
				other.stream.Await("notifications/tools/list_changed")
				awaitHits(all, mark)
			}
		})
	}
}
