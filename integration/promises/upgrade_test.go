package promises

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// release is the folder of the last release, in which its Caddy was built.
type release string

// released returns the last release. The test is skipped without one.
func released(t *testing.T) release {
	t.Helper()
	folder := os.Getenv("MCP_RELEASED")
	if folder == "" {
		t.Skip("MCP_RELEASED does not say where the last release is: .ci/run upgrade does that")
	}
	return release(folder)
}

func (r release) file(name string) string { return filepath.Join(string(r), name) }

// upgrade has the binary of the first Caddy and of the second; "" is the binary of the tests.
type upgrade struct {
	from, to string
	storage  string // the folder of Caddy's storage, in which the first Caddy has made the secrets
}

// bothWays runs a test for an upgrade from the last release, and for the way back to it.
func bothWays(t *testing.T, test func(*testing.T, upgrade)) {
	t.Helper()
	caddy := released(t).file("caddy")
	for name, u := range map[string]upgrade{"forward": {from: caddy}, "back": {to: caddy}} {
		t.Run(name, func(t *testing.T) {
			u.storage = t.TempDir()
			first := u.newInstance(t, u.from)
			first.start("", caddytest.Directive("http://"+fixture.FreeAddr(t)+"/mcp", "page_size 2"))
			fixture.Await(t, "the secrets", func() bool {
				_, err := os.Stat(filepath.Join(u.storage, "mcp_cache", "secret", "ring"))
				return err == nil
			})
			first.Stop(t)
			test(t, u)
		})
	}
}

// newInstance returns an instance of that binary, with the storage.
func (u upgrade) newInstance(t *testing.T, binary string) *instance {
	t.Helper()
	i := newInstance(t)
	i.binary, i.globals = binary, "storage file_system "+u.storage
	return i
}

// kinds returns what lists a Caddy has of the servers. It reports whether it has all of them.
func (s *site) kinds(at *instance) (all []string, ready bool) {
	s.T.Helper()
	ready = true
	for _, name := range s.handlers() {
		var status caddytest.Status
		if err := json.Unmarshal(at.ask("/mcp_cache/"+name), &status); err != nil {
			return nil, false // it has just begun
		}
		for _, k := range status.Kinds {
			all = append(all, name+" "+k.Revision+" "+k.Kind)
		}
		ready = ready && status.Ready
	}
	return all, ready
}

// awaitStored waits until a Caddy has all lists, and Redis, too, if there is one. It returns which.
func (s *site) awaitStored(at *instance) (kinds []string) {
	s.T.Helper()
	fixture.Await(s.T, "all lists", func() (ready bool) {
		if kinds, ready = s.kinds(at); ready && s.fleet {
			return s.store.Do("DBSIZE") == strconv.Itoa(len(kinds)+len(s.handlers()))
		}
		return ready
	})
	return kinds
}

// goAway has the server answer nobody until back is called. A server behind a program stays up and does not
// answer: if it were down, the program would answer with errors, and Caddy would take it for a legacy one.
func (s *site) goAway() (back func()) {
	if !s.program {
		s.Host.Kill()
		return s.Host.Start
	}
	answering := make(chan struct{})
	s.SetScript("*", scripted.Hang(answering))
	return func() {
		close(answering)
		s.SetScript("*", nil)
	}
}

// endsWithItsProcess reports whether a session of a client ends with the process of Caddy that has it.
func (s *site) endsWithItsProcess() bool {
	return s.program && !s.several && s.clientRevision != scripted.Modern
}

// awaitPages waits until a client's tools are fresh and from memory. It returns the names on each page, and
// where the pages after the first begin.
func (s *site) awaitPages(c *fixture.Raw) (pages, cursors []string) {
	s.T.Helper()
	want := 2
	if s.several { // whose lists have no pages
		want = 1
	}
	fixture.Await(s.T, "all pages of a list", func() bool {
		if a := caddytest.PageAt(c, scripted.ToolsList, ""); !a.CacheStatus().Hit || a.CacheStatus().Detail != "" {
			return false
		}
		pages, cursors = caddytest.PagesOf(s.T, c, scripted.ToolsList)
		return len(pages) == want
	})
	return pages, cursors
}

// wantPages fails if a client's tools are others or not from memory, or if a cursor from before leads
// elsewhere.
func (s *site) wantPages(c *fixture.Raw, pages, cursors []string) {
	s.T.Helper()
	for n, want := range pages {
		cursor := ""
		if n > 0 {
			cursor = cursors[n-1]
		}
		a := caddytest.PageAt(c, scripted.ToolsList, cursor)
		if !a.CacheStatus().Hit || caddytest.NamesOn(a, scripted.ToolsList) != want {
			s.T.Errorf("page %d is to have %s: it is %s", n+1, want, a)
		}
	}
}

// wantCalled fails if a client's call does not reach the server.
func (s *site) wantCalled(c *fixture.Raw) {
	s.T.Helper()
	if a := s.call(c, "item-0000"); !isCalled(a, "item-0000") {
		s.T.Errorf("a call is %s", a)
	}
}

// TestUpgrade has a Caddy of one release take the place of a Caddy of another, or join it at one Redis. The
// second Caddy has the lists while the server is down. Clients go on with their sessions and their cursors.
func TestUpgrade(t *testing.T) {
	bothWays(t, func(t *testing.T, caddys upgrade) {
		inEveryPlace(t, func(t *testing.T, s *site) {
			s.common = []string{"admit all"}
			if !s.several {
				s.common = append(s.common, "page_size 2")
			}
			first := caddys.newInstance(t, caddys.from)
			first.start("a", s.body())
			s.caddys = []siteAt{first.siteAt()}
			c := s.clients("")[0]
			s.awaitPages(c)
			s.wantCalled(c)
			kinds := s.awaitStored(first)
			pages, cursors := s.awaitPages(c)

			second := first
			if s.fleet {
				second = caddys.newInstance(t, caddys.to)
			} else {
				first.Stop(t)
			}
			back := s.goAway()
			second.binary = caddys.to
			second.start("b", s.body())
			fixture.Await(t, "all lists from the store", func() bool {
				has, _ := s.kinds(second)
				return !slices.ContainsFunc(kinds, func(one string) bool { return !slices.Contains(has, one) })
			})
			c = c.At(second.URL)
			if s.fleet {
				s.wantTogether(first, second)
			}
			if s.several || s.clientRevision == scripted.Modern { // the server alone lets the others in
				fixture.Await(t, "the list from the store", func() bool {
					return caddytest.NamesOn(caddytest.PageAt(c, scripted.ToolsList, ""), scripted.ToolsList) == pages[0]
				})
				s.wantPages(c, pages, cursors)
			}

			back()
			if s.endsWithItsProcess() {
				if a := c.List(scripted.ToolsList); a.Status != http.StatusNotFound {
					t.Errorf("in a session with a process of another Caddy, a list is %s", a)
				}
				c = fixture.New(t, second.URL, s.clientRevision, "")
			}
			s.awaitPages(c)
			s.wantPages(c, pages, cursors)
			s.wantCalled(c)
		})
	})
}

// wantTogether waits until two Caddys are members at one Redis. It fails if they ignore anything of each other.
func (s *site) wantTogether(all ...*instance) {
	s.T.Helper()
	for _, i := range all {
		fixture.Await(s.T, "two members", func() bool {
			status := i.statusOf(s.handler())
			return status != nil && status.Fleet.State == "together" && len(status.Fleet.Members) == len(all)
		})
	}
	for _, i := range all {
		if f := i.statusOf(s.handler()).Fleet; f.Ignored != 0 || len(f.Others) != 0 {
			s.T.Errorf("%s ignores %d, and has other secrets than %q", f.Name, f.Ignored, f.Others)
		}
	}
}

// sharingBetween starts two Caddys of different releases at one Redis. Lists are due in that many
// milliseconds.
func sharingBetween(t *testing.T, caddys upgrade, ttl int, revisions ...string) *sharing {
	t.Helper()
	s := newSharing(t, redistest.Start(t), ttl, revisions...)
	s.options = append(s.options, "admit all", fmt.Sprintf("ttl %dms", ttl)) // of lists without a time of their own
	for name, binary := range map[string]string{"from": caddys.from, "to": caddys.to} {
		s.startOf(name, binary)
	}
	return s
}

// TestUpgradeTellsOfChanges has two Caddys of different releases at one Redis: once a client of one hears of
// a change, the other does not give the old list.
func TestUpgradeTellsOfChanges(t *testing.T) {
	bothWays(t, func(t *testing.T, caddys upgrade) {
		s := sharingBetween(t, caddys, hour, scripted.Modern, scripted.LatestLegacy)
		all := s.audiences()
		awaitHits(all, "v1")
		for round := range caddytest.Pick(10, 100) {
			mark := fmt.Sprint("round ", round)
			s.change(mark, all[round%2])
			all[1-round%2].wantNew(t, mark)
			awaitHits(all, mark)
		}
	})
}

// TestUpgradeSharesTurns has two Caddys of different releases at one Redis. The server refuses the list to one
// of them. That Caddy gives its clients the list that the server gave to the other.
func TestUpgradeSharesTurns(t *testing.T) {
	bothWays(t, func(t *testing.T, caddys upgrade) {
		for _, revision := range caddytest.Revisions {
			t.Run(caddytest.EraOf(revision), func(t *testing.T) {
				s := sharingBetween(t, caddys, 1000, revision)
				for _, refused := range []string{"from", "to"} {
					s.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
						if x.R.Header.Get("X-Instance") == refused {
							scripted.Status(http.StatusServiceUnavailable)(x)
							return
						}
						x.Default()
					})
					mark := "not given to " + refused
					s.Mark(scripted.ToolsList, mark)
					c := fixture.New(t, s.instances[refused].URL, revision, "")
					c.AwaitList(scripted.ToolsList, "a list that another was given", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, mark) })
				}
			})
		}
	})
}
