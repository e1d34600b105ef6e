package promises

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// marksIn returns the descriptions of the tools in a list.
func marksIn(a *fixture.Answer) (marks []string) {
	for _, text := range a.Items(scripted.ItemsKey(scripted.ToolsList)) {
		var item struct{ Description string }
		if json.Unmarshal([]byte(text), &item) == nil {
			marks = append(marks, item.Description)
		}
	}
	return marks
}

// toldWay is one of the ways in which two Caddys stand in front of the same server.
type toldWay struct {
	revisions []string // of the server
	caller    string   // the Authorization of clients
	several   bool
	program   bool     // it is a program, which speaks one revision
	options   []string // of the server's block
	door      bool     // the server lets callers in, and no feed: it announces changes in answers alone
}

var toldWays = map[string]toldWay{
	"one server":                   {revisions: []string{scripted.LatestLegacy, scripted.Modern}},
	"several":                      {revisions: []string{scripted.LatestLegacy, scripted.Modern}, several: true},
	"several, one of legacy":       {revisions: []string{scripted.LatestLegacy}, several: true},
	"several, one of modern":       {revisions: []string{scripted.Modern}, several: true},
	"several, a program of legacy": {revisions: []string{scripted.LatestLegacy}, several: true, program: true},
	"several, a program of modern": {revisions: []string{scripted.Modern}, several: true, program: true},
	"several, of single callers":   {revisions: []string{scripted.LatestLegacy, scripted.Modern}, several: true, caller: "Bearer a", options: []string{"authorization forward"}, door: true},
}

// start starts an instance of that way, and has clients of both eras get the lists.
func (way toldWay) start(t *testing.T, w, other *caddytest.World, redis, name string) *audience {
	t.Helper()
	upstream, sent := w.Host.URL, "reverse_proxy {\n\t\theader_up X-Instance {env.INSTANCE}\n\t}"
	if way.program {
		upstream, sent = caddytest.RelayTo(upstream), "" // which sends the number of the process that has started it
	}
	options := append([]string{"refresh 10ms", sent}, way.options...)
	var one *instance
	at := "mcp_cache"
	if way.several {
		at += "/one"
		one = startNamed(t, name, "", "store redis "+redis, caddytest.Member{Name: "one", URL: upstream, Options: options}.Block(), caddytest.Member{Name: "two", URL: other.Host.URL}.Block())
	} else {
		one = startNamed(t, name, w.Host.URL, append(options, "store redis "+redis)...)
	}
	one.awaitFleetOf(at, "together")
	m := &audience{instance: one, name: name}
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		m.list = append(m.list, fixture.New(t, one.URL, revision, way.caller))
	}
	m.awaitAll("v1")
	m.stream = m.list[0].Notices()
	return m
}

// awaitAll waits until both clients of an instance get hits of that mark.
func (m *audience) awaitAll(mark string) {
	m.t.Helper()
	for _, c := range m.list {
		c.AwaitList(scripted.ToolsList, "a hit of "+mark, func(a *fixture.Answer) bool {
			return a.Status == http.StatusOK && a.CacheStatus().Hit && a.CacheStatus().Detail == "" && slices.Contains(marksIn(a), mark)
		})
	}
}

// TestFleetGivesNobodyTheOldList has a client of one Caddy told of a change. The server fails
// for another Caddy just then, or is slow: the clients there are never given the old list.
func TestFleetGivesNobodyTheOldList(t *testing.T) {
	redis := redistest.Start(t)
	for name, way := range toldWays {
		t.Run(name, func(t *testing.T) {
			w, other := caddytest.NewUpstream(t), caddytest.NewUpstream(t)
			w.SetRevisions(way.revisions...)
			w.Host.ShareCredentials()
			if way.door {
				w.SetDoor(func(r *http.Request) int {
					if r.Header.Get("Authorization") != way.caller {
						return http.StatusUnauthorized
					}
					return 0
				})
			}
			other.Mark(scripted.ToolsList, "other")
			for _, one := range []*caddytest.World{w, other} {
				one.SetHints(scripted.PublicHour)
				one.Host.Start()
			}
			w.SetScript("tools/call", func(x *scripted.Exchange) {
				x.Event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				x.Event(x.Envelope(`{"content":[]}`))
			})
			a, b := way.start(t, w, other, redis.URL, "a"), way.start(t, w, other, redis.URL, "b")
			// change changes the tools, with a server that is like this to the second Caddy.
			change := func(mark string, second scripted.Script) {
				t.Helper()
				w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
					if by := x.R.Header.Get("X-Instance"); by == "b" || by == strconv.Itoa(b.PID) {
						second(x)
					} else {
						x.Default()
					}
				})
				w.Mark(scripted.ToolsList, mark)
				if way.door {
					a.list[0].Call("tools/call", a.list[0].Params(`"name":"one__item-0000","arguments":{}`))
				} else {
					w.Changed(scripted.Everybody, scripted.ToolsList)
				}
				a.stream.Await("notifications/tools/list_changed")
			}
			change("v2", scripted.Status(http.StatusServiceUnavailable))
			for range 5 {
				for _, c := range b.list {
					got := c.List(scripted.ToolsList)
					marks := marksIn(got)
					switch {
					case slices.Contains(marks, "v1"):
						t.Errorf("with a server that fails, a client of %s is given %s", c.Revision, got)
					case way.several && (!slices.Contains(marks, "other") || got.CacheStatus().Detail != "partial"), !way.several && got.Status != http.StatusServiceUnavailable:
						t.Errorf("without that server's list, a client of %s is given %s", c.Revision, got)
					}
				}
			}
			w.SetScript(scripted.ToolsList, nil)
			if way.several { // who was given a list without a part is told once it is there
				b.stream.Await("notifications/tools/list_changed")
			}
			b.awaitAll("v2")
			change("v3", func(x *scripted.Exchange) {
				select {
				case <-time.After(1500 * time.Millisecond): // longer than anybody waits who may have the old list
				case <-x.Done():
				}
				x.Default()
			})
			for _, c := range b.list {
				if got := c.List(scripted.ToolsList); got.Status != http.StatusOK || !slices.Contains(marksIn(got), "v3") || slices.Contains(marksIn(got), "v2") {
					t.Errorf("with a server that is slow, a client of %s is given %s", c.Revision, got)
				}
			}
		})
	}
}

// TestToldOfListsOfSingleCallers has clients told of a change at once, as each may be shown another
// list. While the server fails, none is given its old list, unless the operator says so for that
// server. Once the server is back, clients are told again.
func TestToldOfListsOfSingleCallers(t *testing.T) {
	for name, options := range map[string][]string{"by default": nil, "after_notice": {"stale_if_error 1h after_notice"}} {
		t.Run(name, func(t *testing.T) {
			w, one := caddytest.NewMember(t, "one", append(options, "authorization forward", "refresh 10ms")...)
			_, two := caddytest.NewMember(t, "two")
			w.SetDoor(func(r *http.Request) int {
				if r.Header.Get("Authorization") != "Bearer a" {
					return http.StatusUnauthorized
				}
				return 0
			})
			w.SetScript("tools/call", func(x *scripted.Exchange) {
				x.Event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				x.Event(x.Envelope(`{"content":[]}`))
			})
			p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{one, two}))
			for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
				c := fixture.New(t, p.URL, revision, "Bearer a")
				caddytest.HasListed(t, c, scripted.ToolsList, 4)
				stream := c.Notices()
				w.SetScript(scripted.ToolsList, scripted.Status(http.StatusServiceUnavailable))
				c.Call("tools/call", c.Params(`"name":"one__item-0000","arguments":{}`))
				stream.Await("notifications/tools/list_changed")
				want, detail := 2, "partial"
				if options != nil {
					want, detail = 4, "stale"
				}
				a := c.List(scripted.ToolsList)
				if n := len(a.Items("tools")); a.Status != http.StatusOK || n != want || a.CacheStatus().Detail != detail {
					t.Errorf("told, a client of %s is given %d tools: %s", revision, n, a)
				}
				w.SetScript(scripted.ToolsList, nil)
				if options == nil {
					caddytest.HasListed(t, c, scripted.ToolsList, 4)
					stream.Await("notifications/tools/list_changed")
				}
			}
		})
	}
}

// toldServer is a server that a handler of its own and a toolkit of the same Caddy have in common.
type toldServer struct {
	upstream string     // as a block names it
	revision string     // of the client that is told
	tool     string     // announces a change when it is called
	tools    int        // that are listed
	fails    func(bool) // has lists of tools fail
}

// newToldServer starts a server that speaks one revision.
func newToldServer(t *testing.T, revision string) toldServer {
	t.Helper()
	w, m := caddytest.NewMember(t, "one")
	w.SetRevisions(revision)
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		x.Event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		x.Event(x.Envelope(`{"resultType":"complete","content":[]}`))
	})
	return toldServer{"reverse_proxy " + strings.TrimPrefix(strings.TrimSuffix(m.URL, "/mcp"), "http://"), revision, "item-0000", 2, func(is bool) {
		w.SetScript(scripted.ToolsList, nil)
		if is {
			w.SetScript(scripted.ToolsList, scripted.Status(http.StatusServiceUnavailable))
		}
	}}
}

// newToldProgram is a program, with one process for all sessions.
func newToldProgram(t *testing.T, revision string, traits ...string) toldServer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fails")
	command, _ := caddytest.MisbehavingProgram(t, append(traits, "fails", file)...)
	share := "share"
	if revision == scripted.Modern {
		share = "era modern"
	}
	return toldServer{caddytest.ProgramUpstream(command, share), revision, "change", 1, func(is bool) {
		_ = os.Remove(file)
		if is {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}}
}

// TestToldAtAnotherHandler has a client told of a change by a handler of the server alone. At the
// toolkit of the same Caddy it could be any client, so no list there is the old one while the server
// fails, of whichever era the clients are. Calls still reach the server.
func TestToldAtAnotherHandler(t *testing.T) {
	for name, start := range map[string]func(*testing.T) toldServer{
		"a server of legacy":  func(t *testing.T) toldServer { return newToldServer(t, scripted.LatestLegacy) },
		"a server of modern":  func(t *testing.T) toldServer { return newToldServer(t, scripted.Modern) },
		"a program of legacy": func(t *testing.T) toldServer { return newToldProgram(t, scripted.LatestLegacy) },
		"a program of modern": func(t *testing.T) toldServer { return newToldProgram(t, scripted.Modern, "modern") },
	} {
		t.Run(name, func(t *testing.T) {
			one := start(t)
			_, two := caddytest.NewMember(t, "two")
			options := "\nkinds tools\nrefresh 10ms\nmin_ttl 1h\n" + one.upstream + "\n"
			p := caddytest.StartProxy(t, "handle /mcp {\nmcp_cache {\nname alone"+options+"}\n}\nhandle_path /all/* {\nmcp_cache {\nserver one {"+options+"}\n"+two.Block()+"\n}\n}")
			c := fixture.New(t, p.URL, one.revision, "")
			var all []*fixture.Raw
			for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
				r := fixture.New(t, "http://"+p.Addr+"/all/mcp", revision, "")
				caddytest.HasListed(t, r, scripted.ToolsList, one.tools+2)
				all = append(all, r)
			}
			stream := c.Notices()
			one.fails(true)
			told := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q,"arguments":{}`, one.tool)))
			if !strings.Contains(string(told.Body), "list_changed") {
				stream.Await("notifications/tools/list_changed")
			}
			for _, r := range all {
				if a := r.List(scripted.ToolsList); len(a.Items("tools")) != 2 || a.CacheStatus().Detail != "partial" {
					t.Errorf("a client of %s of the toolkit is given %s", r.Revision, a)
				}
				if a := r.Call("tools/call", r.Params(fmt.Sprintf(`"name":"one__%s","arguments":{}`, one.tool))); a.Status != http.StatusOK || a.ErrorCode() != 0 {
					t.Errorf("a call of a client of %s gave %s", r.Revision, a)
				}
			}
			one.fails(false)
			for _, r := range all {
				caddytest.HasListed(t, r, scripted.ToolsList, one.tools+2)
			}
		})
	}
}

// TestToldAtAToolkit has a client told of a change at a toolkit, which tells those at once who may have
// lists of their own. At a handler of that server alone it could be any client: while the server fails,
// each gets the failure.
func TestToldAtAToolkit(t *testing.T) {
	w, one := caddytest.NewMember(t, "one", "authorization forward", "refresh 10ms")
	_, two := caddytest.NewMember(t, "two")
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		x.Event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		x.Event(x.Envelope(`{"resultType":"complete","content":[]}`))
	})
	p := caddytest.StartProxy(t, "handle /mcp {\n"+caddytest.Directive(one.URL, "refresh 10ms", "name alone")+"\n}\nhandle_path /all/* {\n"+caddytest.ToolkitOf([]caddytest.Member{one, two})+"\n}")
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		c, all := fixture.New(t, p.URL, revision, "Bearer a"), fixture.New(t, "http://"+p.Addr+"/all/mcp", revision, "Bearer a")
		c.Settle(scripted.ToolsList)
		caddytest.HasListed(t, all, scripted.ToolsList, 4)
		stream := all.Notices()
		w.SetScript(scripted.ToolsList, scripted.Status(http.StatusServiceUnavailable))
		all.Call("tools/call", all.Params(`"name":"one__item-0000","arguments":{}`))
		stream.Await("notifications/tools/list_changed")
		if a := c.List(scripted.ToolsList); a.Status != http.StatusServiceUnavailable {
			t.Errorf("a client of %s of the server alone is given %s", revision, a)
		}
		w.SetScript(scripted.ToolsList, nil)
	}
}
