package promises

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// certainOrForwarded sends what could be read in two ways, and what no server knows. In front of one
// server that reaches it as it is; several servers refuse it, and so does the endpoint of a program.
func certainOrForwarded(t *testing.T, s *site) {
	s.begin()
	for _, c := range s.settled("") {
		twice := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/list","method":"tools/list","params":%s}`, c.Params(""))
		header := http.Header{}
		if c.Modern() {
			header.Set("Mcp-Method", scripted.ToolsList)
		}
		a := c.Post(twice, header)
		last, _ := s.Host.Last()
		switch reached := string(last.Body) == twice; {
		case a.CacheStatus().Hit:
			t.Errorf("what is not certain is a hit: %s", a)
		case s.several || s.program:
			if reached || a.ErrorCode() == 0 {
				t.Errorf("what is not certain is not refused: it has reached the server: %t, %s", reached, a)
			}
		case !reached:
			t.Errorf("what is not certain has not reached the server as it is: %s, %s", last.Body, a)
		}
		if a := c.Call("unknown/method", c.Params("")); a.ErrorCode() != -32601 {
			t.Errorf("an unknown method gave %s", a)
		}
	}
}

// neverStale announces changes: once a client of any Caddy was told, no list is old. In the first round
// programs may still say that they have started. In the last one the server's list fails at first, and
// clients of several servers are told once it is there.
func neverStale(t *testing.T, s *site) {
	s.begin()
	all := s.settled("")
	var streams []*fixture.Stream
	for _, c := range all {
		s.call(c, "item-0000") // a program sleeps until it is used, and announces nothing meanwhile
		streams = append(streams, c.Notices())
	}
	fixture.Await(t, "the streams to reach the server", func() bool { return s.Streams(scripted.Everybody) > 0 })
	last := caddytest.Pick(6, 50)
	for round := range last + 1 {
		for _, stream := range streams {
			for stream.Has() { // what was announced before
				stream.Next()
			}
		}
		if round == last {
			var failed atomic.Bool
			s.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
				if failed.Swap(true) && s.several {
					x.Default()
				} else {
					scripted.Status(http.StatusServiceUnavailable)(x)
				}
			})
		}
		old, mark := fmt.Sprint("round ", round-1), fmt.Sprint("round ", round)
		s.change(mark)
		told := round % len(all)
		streams[told].Await("notifications/tools/list_changed")
		for n, c := range all {
			a := c.List(scripted.ToolsList)
			own, _ := s.tools(a)
			if isOld := slices.Equal(own, scripted.Items(scripted.ToolsList, old, 3)); isOld || round > 0 && round < last && !s.isWhole(a, mark) {
				t.Errorf("after %s was announced at Caddy %d, Caddy %d gives %s", mark, told, n, a)
			}
		}
		s.SetScript(scripted.ToolsList, nil)
		for n, c := range all {
			if n != told {
				streams[n].Await("notifications/tools/list_changed")
			}
			s.awaitMark(c, mark)
		}
	}
}

// neverSomebodyElses has rules hide a tool from guests, and the server show each caller other tools,
// where it learns who asks. No caller sees another one's.
func neverSomebodyElses(t *testing.T, s *site) {
	s.before = "@guests not header X-Role staff"
	options := []string{"deny @guests tools item-0002"}
	if !s.program {
		s.SetHints(scripted.PrivateHour)
		for _, caller := range []string{"a", "b"} {
			s.SetPrivateList("Bearer "+caller, scripted.ToolsList, scripted.Items(scripted.ToolsList, "of "+caller, 3))
		}
		if s.several {
			options = append(options, "authorization forward")
		}
	}
	s.begin(options...)
	for range 3 {
		for _, caller := range []string{"a", "b"} {
			for _, c := range s.clients("Bearer " + caller) {
				for _, role := range []string{"guest", "staff"} {
					c.Header.Set("X-Role", role)
					want := scripted.Items(scripted.ToolsList, "of "+caller, 3)
					if s.program {
						want = scripted.Items(scripted.ToolsList, "v1", 3)
					}
					if role == "guest" {
						want = want[:2]
					}
					a := c.AwaitList(scripted.ToolsList, "all tools", func(a *fixture.Answer) bool {
						own, others := s.tools(a)
						return len(own) > 0 && s.hasOthers(others)
					})
					if own, _ := s.tools(a); !slices.Equal(own, want) {
						t.Errorf("%s %s is given %s", role, caller, a)
					}
					if a := s.call(c, "item-0002"); isCalled(a, "item-0002") != (role == "staff") {
						t.Errorf("%s %s calls a tool that guests may not see: %s", role, caller, a)
					}
				}
			}
		}
	}
}

// byteFaithful has odd items, and a refresh that changes nothing. All Caddys give the same bytes.
func byteFaithful(t *testing.T, s *site) {
	odd := scripted.Page{
		`{"title":"né\u00e9","big":12345678901234567890.120, "inner":{"name":"n"},"name" : "o\u0064d","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}},"_meta":{"x":[1e400]}}`,
		`{"inputSchema" : {"type":"object"},"name":"plain","x-unknown":null}`,
	}
	s.SetList(scripted.ToolsList, odd)
	s.begin()
	var first []byte
	for _, c := range s.clients("") {
		a := c.AwaitList(scripted.ToolsList, "a hit", func(a *fixture.Answer) bool {
			_, others := s.tools(a)
			return a.CacheStatus().Hit && a.CacheStatus().Detail == "" && s.hasOthers(others)
		})
		if own, _ := s.tools(a); strings.Join(own, "") != strings.ReplaceAll(strings.Join(odd, ""), `"one__`, `"`) {
			t.Errorf("the tools have become %s", own)
		}
		if first == nil {
			first = a.Part("result", "tools")
		}
		before := s.Host.Count(scripted.ToolsList)
		s.Changed(scripted.Everybody, scripted.ToolsList)
		fixture.Await(t, "a refresh", func() bool { return s.Host.Count(scripted.ToolsList) > before })
		a = c.AwaitList(scripted.ToolsList, "a hit", func(a *fixture.Answer) bool { return a.CacheStatus().Hit && a.CacheStatus().Detail == "" })
		if got := a.Part("result", "tools"); !bytes.Equal(got, first) {
			t.Errorf("the list was %s, and is %s", first, got)
		}
	}
}

// expiring has the lists of a site be fresh for a third of a second.
func expiring(s *site) {
	s.SetHints(scripted.PublicBrief)
	s.begin("ttl 300ms")
}

// failureEmptiesNothing has lists fail, break off and be empty for no reason. The last good one stays,
// and so does that of the other server.
func failureEmptiesNothing(t *testing.T, s *site) {
	expiring(s)
	all := s.settled("")
	for name, fails := range map[string]scripted.Script{
		"fails": scripted.Status(http.StatusServiceUnavailable),
		"breaks off": func(x *scripted.Exchange) {
			x.Raw(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"tools":[`)
		},
		"is too odd": func(x *scripted.Exchange) {
			x.Result(`{"resultType":"complete","ttlMs":300,"cacheScope":"public","tools":{}}`)
		},
	} {
		s.SetScript(scripted.ToolsList, fails)
		for _, c := range all {
			a := c.AwaitList(scripted.ToolsList, "a list that is stale", func(a *fixture.Answer) bool {
				if !a.CacheStatus().Hit { // programs announce their lists once they have started, which others hear later
					s.SetScript(scripted.ToolsList, nil)
					s.awaitMark(c, "v1")
					s.SetScript(scripted.ToolsList, fails)
				}
				return a.CacheStatus().Detail == "stale"
			})
			if !s.isWhole(a, "v1") {
				t.Errorf("when the list %s, a client is given %s", name, a)
			}
		}
		s.SetScript(scripted.ToolsList, nil)
		for _, c := range all {
			s.awaitMark(c, "v1")
		}
	}
}

// sickServerSlowsNobody has the server answer no list any more: a list that was fetched before is given
// meanwhile.
func sickServerSlowsNobody(t *testing.T, s *site) {
	expiring(s)
	all := s.settled("")
	sick, well := make(chan struct{}, 100), make(chan struct{})
	defer close(well)
	s.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		sick <- struct{}{}
		select {
		case <-well:
		case <-x.Done():
		}
	})
	<-sick
	for _, c := range all {
		a := c.AwaitList(scripted.ToolsList, "a list that is stale", func(a *fixture.Answer) bool {
			if !s.isWhole(a, "v1") {
				t.Errorf("while the server is sick, a client is given %s", a)
			}
			return a.CacheStatus().Detail == "stale"
		})
		if a.Status != http.StatusOK {
			t.Errorf("it is %s", a)
		}
	}
}

// TestCallersKeepTheirLists has the server fail, or cut the connection in the middle of a list that is a single
// caller's. The caller is given its last list. A program has no such lists.
func TestCallersKeepTheirLists(t *testing.T) {
	for _, in := range []column{ofOne, ofSeveral, overRedis} {
		for _, era := range eras {
			for _, at := range placesOf(in, era) {
				if at.program || era == across && !at.several {
					continue // see notLetIn and notAcross
				}
				t.Run(fmt.Sprintf("%s, %s", in, at), func(t *testing.T) {
					if at.fleet {
						t.Parallel() // each Caddy is a process
					}
					callersKeepTheirLists(t, newSite(t, at))
				})
			}
		}
	}
}

func callersKeepTheirLists(t *testing.T, s *site) {
	s.SetHints(scripted.PrivateBrief)
	s.SetPrivateList("Bearer a", scripted.ToolsList, scripted.Items(scripted.ToolsList, "of a", 3))
	options := []string{"ttl 300ms"}
	if s.several {
		options = append(options, "authorization forward")
	}
	s.begin(options...)
	for _, c := range s.clients("Bearer a") {
		for name, fails := range map[string]scripted.Script{
			"fails": scripted.Status(http.StatusServiceUnavailable), "is cut": scripted.HalfBody,
		} {
			s.SetScript(scripted.ToolsList, nil)
			s.awaitMark(c, "of a")
			s.SetScript(scripted.ToolsList, fails)
			c.AwaitList(scripted.ToolsList, "a list that is stale", func(a *fixture.Answer) bool {
				if !s.isWhole(a, "of a") {
					t.Errorf("when the list %s, its caller is given %s", name, a)
				}
				return a.CacheStatus().Detail == "stale"
			})
		}
	}
}
