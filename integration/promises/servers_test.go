package promises

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// neverPastRefusal has the server let in one caller alone, and end a session.
func neverPastRefusal(t *testing.T, s *site) {
	token := ""
	var options []string
	if !s.program {
		token = "Bearer good"
		s.SetDoor(scripted.Bearers("good", "feed"))
		options = append(options, "guard bearer feed")
		if s.several {
			options = append(options, "authorization forward")
		} else {
			options = append(options, "scope public")
		}
	}
	s.begin(options...)
	all := s.settled(token)
	for n, c := range all {
		if s.program {
			break
		}
		stranger := fixture.NewModern(t, s.caddys[n].URL, "Bearer bad")
		stranger.Revision, stranger.Session = c.Revision, c.Session
		for range 2 {
			a := stranger.List(scripted.ToolsList)
			if a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") == "" || strings.Contains(string(a.Body), "item-") {
				t.Errorf("a caller whom the server refuses is given %s", a)
			}
		}
		s.awaitMark(c, "v1")
	}
	for _, c := range all {
		if c.Modern() {
			continue
		}
		c.Delete()
		for range 2 {
			if a := c.List(scripted.ToolsList); a.Status != http.StatusNotFound {
				t.Errorf("in a session that has ended, a list is %s", a)
			}
		}
	}
}

// credentialsDoNotCross has a client send all sorts of credentials, and the feed one of its own. The
// server gets the client's on the client's own requests alone, and of several servers what its options
// say. Nothing is logged.
func credentialsDoNotCross(t *testing.T, s *site) {
	var options []string
	if !s.program {
		options = append(options, "guard bearer planted-guard")
	}
	if s.several && !s.program {
		options = append(options, "authorization forward")
	}
	s.begin(options...)
	for _, c := range s.clients("") {
		for name, value := range caddytest.Canaries {
			c.Header.Set(name, value)
		}
		for range 3 {
			c.AwaitList(scripted.ToolsList, "all tools", func(a *fixture.Answer) bool { return s.isWhole(a, "v1") })
			if a := s.call(c, "item-0001"); !isCalled(a, "item-0001") {
				t.Errorf("a call gave %s", a)
			}
		}
	}
	for _, r := range s.Host.Requests(func(*fixture.Request) bool { return true }) {
		sent := fmt.Sprint(r.URL, r.Header, string(r.Body))
		own := sent
		if s.several && !s.program {
			own = strings.ReplaceAll(sent, "canary-own", "")
		}
		if strings.Contains(own, "canary") && (s.several || s.program || r.Feed) {
			t.Errorf("the server is sent a client's credential: %s", sent)
		}
		if strings.Contains(sent, "planted") && (!r.Feed || strings.Contains(sent, "canary")) {
			t.Errorf("the server is sent the guard's token for a client: %s", sent)
		}
	}
	for _, at := range s.caddys {
		for line := range strings.Lines(at.log()) {
			if strings.Contains(line, `"logger":"http.handlers.mcp_cache`) && (strings.Contains(line, "canary") || strings.Contains(line, "planted")) {
				t.Errorf("the log has a credential: %s", line)
			}
		}
	}
}

// everythingHasABound has a list that is larger than may be kept: it is not, and harms no other.
func everythingHasABound(t *testing.T, s *site) {
	const most = 4 << 10
	s.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, strings.Repeat("x", most), 3))
	s.begin("max_list 4KiB")
	fixture.Await(t, "the log of a Caddy to name the limit", func() bool {
		return slices.ContainsFunc(s.caddys, func(at siteAt) bool { return strings.Contains(at.log(), "max_list") })
	})
	for _, c := range s.clients("") {
		for range 3 {
			a := c.AwaitList(scripted.ToolsList, "the other server's tools", func(a *fixture.Answer) bool {
				_, others := s.tools(a)
				return s.hasOthers(others)
			})
			if own, _ := s.tools(a); a.CacheStatus().Hit && len(own) > 0 {
				t.Errorf("a list above the limit is kept: %s", a)
			}
		}
	}
	s.change("v1")
	for _, c := range s.clients("") {
		s.awaitMark(c, "v1")
	}
}

// reloadLosesNothing reloads with something else beside: lists, the feed and sessions live on, also
// while the server is down.
func reloadLosesNothing(t *testing.T, s *site) {
	s.begin()
	all := s.settled("")
	reload := func() {
		s.before += "\nheader X-Reloads " + fmt.Sprint(strings.Count(s.before, "X-Reloads")+1)
		for _, at := range s.caddys {
			at.reload(s.body())
		}
	}
	asked := s.Host.Count(scripted.ToolsList)
	reload()
	for _, c := range all {
		if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit || !s.isWhole(a, "v1") {
			t.Errorf("after a reload, a client is given %s", a)
		}
	}
	if n := s.Host.Count(scripted.ToolsList); n != asked {
		t.Errorf("a reload asked for %d lists", n-asked)
	}
	s.Host.Kill()
	reload()
	for _, c := range all {
		if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit || !s.isWhole(a, "v1") {
			t.Errorf("after a reload without the server, a client is given %s", a)
		}
	}
	s.Host.Start()
	for _, c := range all {
		if a := s.call(c, "item-0000"); !isCalled(a, "item-0000") {
			t.Errorf("after a reload, a call gave %s", a)
		}
	}
}

// callsAddNoWork has clients begin as agents do, and call tools of a server that announces no changes. Each call
// reaches the server once, and the server is asked for no more lists than clients have asked for.
func callsAddNoWork(t *testing.T, s *site) {
	s.SetCapabilities(`{"tools":{},"prompts":{},"resources":{}}`)
	s.begin()
	others := []string{"prompts/list", "resources/list"}
	for _, c := range s.settled("") {
		for _, method := range others {
			c.Settle(method)
		}
	}
	const rounds, calls = 10, 10
	countOthers := func() int { return s.Host.Count(others[0]) + s.Host.Count(others[1]) }
	before, called, other := s.Host.Count(scripted.ToolsList), s.Host.Count("tools/call"), countOthers()
	asked := 0
	for range rounds {
		for _, c := range s.clients("") {
			if a := c.List(scripted.ToolsList); !s.isWhole(a, "v1") {
				t.Errorf("a new client is given %s", a)
			}
			asked++
			for range calls {
				if a := s.call(c, "item-0002"); !isCalled(a, "item-0002") {
					t.Errorf("a new client's call gave %s", a)
				}
			}
		}
	}
	if n := s.Host.Count("tools/call") - called; n != asked*calls {
		t.Errorf("%d calls reached the server %d times", asked*calls, n)
	}
	woken := 0
	if s.program {
		woken = len(s.caddys) // they look at each list of a program that has woken
	}
	if n := s.Host.Count(scripted.ToolsList) - before; n > asked+woken {
		t.Errorf("%d lists of clients had the server asked for %d", asked, n)
	}
	if n := countOthers() - other; n > len(others)*(len(s.caddys)+woken) { // one for each that a client has settled
		t.Errorf("the server was asked for %d lists of other kinds", n)
	}
}
