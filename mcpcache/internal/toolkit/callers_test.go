package toolkit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/callerlists"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// private returns a server that lists one tool for each caller, which has the caller's name, and refuses strangers.
// Its feeds are let in as nobody.
func private(name string, speaks ...revision.Revision) *member {
	m := serves(name, speaks...).personal()
	m.On("tools/list", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
		who := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if who == "stranger" {
			return clienttest.Status(http.StatusUnauthorized, "WWW-Authenticate", "Bearer")(w, r, c)
		}
		if who == "" {
			who = "nobody"
		}
		return clienttest.Result(w, c, fmt.Sprintf(`{"tools":[{"name":"of_%s"}],%s}`, who, m.Hints))
	})
	return m
}

// listsOf returns how often a caller's tools were asked for.
func (m *member) listsOf(who string) (n int) {
	for _, c := range m.asked("tools/list") {
		if c.Header.Get("Authorization") == "Bearer "+who {
			n++
		}
	}
	return n
}

// Each caller is shown what the server lists for that caller, and nothing of another's. The server is asked once for
// each of them.
func TestCallersHaveListsOfTheirOwn(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			one := private("one", speaks)
			run(t, func(w *world) {
				for range 3 {
					for _, who := range []string{"ada", "bob"} {
						w.eachEra(func(c *caller) {
							c.list(revision.Tools).wantNames(w, revision.Tools, "one__of_"+who, "open__tools_a", "open__tools_b")
						}, "Authorization", "Bearer "+who)
					}
					w.eachEra(func(c *caller) {
						c.list(revision.Tools).wantNames(w, revision.Tools, "one__of_nobody", "open__tools_a", "open__tools_b")
					})
				}
				for _, who := range []string{"ada", "bob"} {
					if n := one.listsOf(who); n != 1 {
						t.Errorf("the tools of %s were asked for %d times", who, n)
					}
				}
			}, one, serves("open"))
		})
	}
}

// Nothing of what a server shows single callers is anybody else's: such a list is said to be private, and operators
// see the feed's alone.
func TestListsOfCallersArePrivate(t *testing.T) {
	run(t, func(w *world) {
		a := w.calls(modern, "Authorization", "Bearer ada").list(revision.Tools)
		if !strings.Contains(a.Body.String(), `"cacheScope":"private"`) {
			t.Errorf("the list is %s", a)
		}
		if e := w.Joined(modern, revision.Tools); !slices.Equal(e.Body.Names(), []string{"one__of_nobody"}) {
			t.Errorf("operators see %q", e.Body.Names())
		}
	}, private("one"))
}

// A server is asked once for all who ask the same at one time, and goes on when they have gone away.
func TestCallersWaitTogether(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			one := private("one", speaks)
			run(t, func(w *world) {
				answer := one.holdsBack("tools/list")
				c := w.calls(modern, "Authorization", "Bearer ada")
				var waiting []*received
				var leaves []func()
				for range 5 {
					a, leave := c.beginList(revision.Tools)
					waiting, leaves = append(waiting, a), append(leaves, leave)
				}
				leaves[0]()
				if !waiting[0].isOver() {
					t.Error("a caller that has gone away is waited for")
				}
				answer()
				for _, a := range waiting[1:] {
					if !a.isOver() {
						t.Fatal("a list is not answered")
					}
					a.wantNames(w, revision.Tools, "one__of_ada")
				}
				if n := one.listsOf("ada"); n != 1 {
					t.Errorf("the server was asked %d times", n)
				}
				for _, leave := range leaves {
					leave()
				}
			}, one)
		})
	}
}

// A legacy server shows a caller all of its lists in one session, so that several lists ask for them once.
func TestCallersOfLegacyServersAskOnce(t *testing.T) {
	one := private("one", legacy)
	run(t, func(w *world) {
		answer := one.holdsBack("tools/list")
		c := w.calls(modern, "Authorization", "Bearer ada")
		asked := make(map[revision.Kind]*received)
		for _, k := range []revision.Kind{revision.Tools, revision.Prompts, revision.Resources} {
			a, leave := c.beginList(k)
			defer leave()
			asked[k] = a
		}
		answer()
		asked[revision.Tools].wantNames(w, revision.Tools, "one__of_ada")
		asked[revision.Prompts].wantNames(w, revision.Prompts, "one__prompts_a", "one__prompts_b")
		if n := one.listsOf("ada"); n != 1 {
			t.Errorf("for lists of three kinds, the server was asked for tools %d times", n)
		}
	}, one)
}

// A caller whom a server refuses is given the list without that server, which counts as complete. The server is asked
// again after a minute, or by a caller with other credentials.
func TestCallersWhomAServerRefuses(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			one := private("one", speaks)
			run(t, func(w *world) {
				c := w.calls(modern, "Authorization", "Bearer stranger")
				lists := func(when string, want int) {
					t.Helper()
					a := c.list(revision.Tools)
					a.wantNames(w, revision.Tools, "open__tools_a", "open__tools_b")
					if strings.Contains(a.status(), "partial") || a.ttl() <= 0 {
						t.Errorf("%s the list says %s", when, a)
					}
					if n := one.listsOf("stranger"); n != want {
						t.Errorf("%s the server was asked %d times, want %d", when, n, want)
					}
				}
				lists("at first", 1)
				w.after(callerlists.RefusalCounts - time.Second)
				lists("within a minute", 1)
				w.calls(modern, "Authorization", "Bearer ada").list(revision.Tools).
					wantNames(w, revision.Tools, "one__of_ada", "open__tools_a", "open__tools_b")
				w.after(time.Second)
				lists("after a minute", 2)
			}, one, serves("open"))
		})
	}
}

// A caller for whom a server fails is given the list without that server, marked partial. Lists of the next ten seconds
// do not wait for the server again.
func TestCallersForWhomAServerFails(t *testing.T) {
	for name, fails := range map[string]clienttest.Script{
		"an error": clienttest.Status(http.StatusInternalServerError),
		"no connection": func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			return clienttest.Refuse(w, r, c)
		},
		"a panic": func(http.ResponseWriter, *http.Request, clienttest.Call) error { panic("a handler's") },
		"nothing": clienttest.Hang,
	} {
		t.Run(name, func(t *testing.T) {
			one := private("one", modern)
			run(t, func(w *world) {
				lists := one.Script("tools/list")
				one.On("tools/list", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
					if r.Header.Get("Authorization") == "Bearer ada" {
						return fails(w, r, c)
					}
					return lists(w, r, c)
				})
				c := w.calls(modern, "Authorization", "Bearer ada")
				partial := func(when string) {
					t.Helper()
					a := c.list(revision.Tools)
					a.wantNames(w, revision.Tools, "open__tools_a", "open__tools_b")
					if !strings.HasSuffix(a.status(), "detail=partial") || a.ttl() != 0 {
						t.Errorf("%s the list says %s", when, a)
					}
				}
				partial("at first")
				asked := one.listsOf("ada")
				began := time.Now()
				partial("soon after")
				if waited := time.Since(began); waited != 0 || one.listsOf("ada") != asked {
					t.Errorf("the next list waited %s, and the server was asked %d times more", waited, one.listsOf("ada")-asked)
				}
				one.On("tools/list", lists)
				w.after(callerlists.Within + callerlists.FailureCounts)
				c.list(revision.Tools).wantNames(w, revision.Tools, "one__of_ada", "open__tools_a", "open__tools_b")
			}, one, serves("open"))
		})
	}
}

// A caller's first list waits as long as the gate for servers that have not shown the caller anything.
func TestCallersFirstListWaits(t *testing.T) {
	for within, want := range map[time.Duration][]string{
		9 * time.Second: {"one__of_ada", "open__tools_a", "open__tools_b"}, 11 * time.Second: {"open__tools_a", "open__tools_b"},
	} {
		one := private("one", modern)
		runWith(t, setup{settings: func(s *Settings) { s.Gate = 10 * time.Second }}, func(w *world) {
			lists := one.Script("tools/list")
			one.On("tools/list", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
				time.Sleep(within)
				return lists(w, r, c)
			})
			w.calls(modern, "Authorization", "Bearer ada").list(revision.Tools).wantNames(w, revision.Tools, want...)
		}, one, serves("open"))
	}
}

// Where the feeds are not let in, a caller's question finds out which era the server speaks.
func TestCallersFindOutTheEra(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			one := serves("one", speaks).personal()
			one.Demand("Bearer ada")
			run(t, func(w *world) {
				w.eachEra(func(c *caller) {
					c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b")
					w.wantSpoken(c, one, speaks)
				}, "Authorization", "Bearer ada")
				if a := w.calls(modern, "Authorization", "Bearer bob").list(revision.Tools); len(a.names(revision.Tools)) != 0 {
					t.Errorf("who is not let in is given %s", a)
				}
			}, one)
		})
	}
}

// A server that calls its list everybody's shows callers the feed's once it has accepted them.
func TestCallersAreShownWhatIsEverybodys(t *testing.T) {
	one := serves("one", modern).personal()
	one.Hints = `"ttlMs":3600000,"cacheScope":"public"`
	run(t, func(w *world) {
		feeds := len(one.asked("tools/list"))
		for _, who := range []string{"ada", "bob", "ada", "bob"} {
			w.calls(modern, "Authorization", "Bearer "+who).list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b")
		}
		if n := len(one.asked("tools/list")) - feeds; n != 2 {
			t.Errorf("for two callers the server was asked %d times", n)
		}
	}, one)
}

// A change that a server announces outdates the lists of all callers: each is asked for anew when its caller lists.
func TestCallersAreShownChanges(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			one := serves("one", speaks).personal()
			run(t, func(w *world) {
				c := w.calls(modern, "Authorization", "Bearer ada")
				c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b")
				w.changes(one, revision.Tools, "new")
				c.list(revision.Tools).wantNames(w, revision.Tools, "one__new")
			}, one)
		})
	}
}

// A server has each of its fields of the caller's header, and no other server has any of them.
func TestCallersAreKnownByTheirFields(t *testing.T) {
	one, open := serves("one", modern).personal(), serves("open", modern)
	one.of.Credentials = Credentials{From: "X-Key", Headers: []string{"X-Tenant"}}
	run(t, func(w *world) {
		c := w.calls(modern, "X-Key", "Bearer key", "X-Tenant", "blue", "Authorization", "Bearer own")
		c.list(revision.Tools)
		c.call("one__tools_a").wantOf(w, "one")
		c.call("open__tools_a").wantOf(w, "open")
		for _, method := range []string{"tools/list", "tools/call"} {
			if h := one.last(t, method).Header; h.Get("Authorization") != "Bearer key" || h.Get("X-Tenant") != "blue" || h["X-Key"] != nil {
				t.Errorf("of %s the server is sent the header %v", method, h)
			}
		}
		for _, r := range open.Requests {
			if r.Header["Authorization"] != nil || r.Header["X-Key"] != nil || r.Header["X-Tenant"] != nil {
				t.Errorf("of %s the other server is sent the header %v", r.Method, r.Header)
			}
		}
	}, one, open)
}

// A caller's call goes to the server that shows the caller what it names, though the caller has not listed.
func TestCallersNeedNotList(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			bare, prefixed := private("bare", speaks), private("prefixed", speaks)
			bare.of.Prefix = ""
			run(t, func(w *world) {
				c := w.calls(modern, "Authorization", "Bearer ada")
				c.call("of_ada").wantOf(w, "bare")
				if n := prefixed.listsOf("ada"); n != 0 {
					t.Errorf("for a name without a prefix, the other server was asked %d times", n)
				}
				c.call("prefixed__of_ada").wantOf(w, "prefixed")
				c.ask("resources/read", `"uri":"prefixed://resources_b"`).wantOf(w, "prefixed")
				if n := bare.listsOf("ada") + prefixed.listsOf("ada"); n > 2 {
					t.Errorf("the servers were asked for tools %d times", n)
				}
			}, bare, prefixed)
		})
	}
}

// A kind that the operator does not want from a server is not asked of it for any caller, and is not missing.
func TestCallersAreNotShownWhatIsNotWanted(t *testing.T) {
	one := private("one", modern)
	one.settings.Kinds = revision.SetOf(revision.Prompts)
	one.settings.Feed.Kinds = one.settings.Kinds
	run(t, func(w *world) {
		c := w.calls(modern, "Authorization", "Bearer ada")
		a := c.list(revision.Tools)
		if a.wantNames(w, revision.Tools, "open__tools_a", "open__tools_b"); strings.Contains(a.status(), "partial") {
			t.Errorf("the list says %s", a)
		}
		c.list(revision.Prompts).wantNames(w, revision.Prompts, "one__prompts_a", "one__prompts_b", "open__prompts_a", "open__prompts_b")
		if n := one.listsOf("ada"); n != 0 {
			t.Errorf("the server was asked %d times", n)
		}
	}, one, serves("open"))
}
