package toolkit

import (
	"context"
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

// A caller is told by server/discover what the servers say to that caller of themselves, in whichever era.
func TestCallersAreToldWhatServersAre(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			one := serves("one", speaks).personal()
			said := func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
				id := "session of " + r.Header.Get("Authorization")
				one.Do(func() { one.Sessions[id] = true })
				w.Header().Set("Mcp-Session-Id", id)
				instructions := "Hello " + r.Header.Get("Authorization")
				return clienttest.Result(w, c, fmt.Sprintf(
					`{"resultType":"complete","supportedVersions":["2026-07-28"],"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"instructions":%q,%s}`,
					instructions, one.Hints,
				))
			}
			one.On("initialize", said)
			if speaks == modern {
				one.On("server/discover", said)
			}
			run(t, func(w *world) {
				for _, who := range []string{"Bearer ada", "Bearer bob"} {
					c := w.calls(modern, "Authorization", who)
					for range 2 {
						if a := c.list(revision.Discover); !strings.Contains(a.Body.String(), `"instructions":"# one\n\nHello `+who+`"`) {
							t.Errorf("%s is told %s", who, a)
						}
					}
				}
			}, one)
		})
	}
}

// A server that has called its list everybody's, and now shows each caller another one, has its callers be shown their
// own. The feed, which is not let in any more, still has the old list.
func TestCallersOfServersThatCeaseToBePublic(t *testing.T) {
	one := serves("one", modern).personal()
	one.Hints = `"ttlMs":3600000,"cacheScope":"public"`
	run(t, func(w *world) {
		c := w.calls(modern, "Authorization", "Bearer ada")
		c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b")
		one.lets("Bearer ada")
		lists := one.Script("tools/list")
		one.On("tools/list", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			if r.Header.Get("Authorization") == "Bearer ada" {
				return clienttest.Gives(`{"tools":[{"name":"of_ada"}],"ttlMs":3600000,"cacheScope":"private"}`)(w, r, c)
			}
			return lists(w, r, c)
		})
		w.after(time.Second)
		w.outdate(one, revision.Tools)
		for n := range 3 {
			a := c.list(revision.Tools)
			if a.wantNames(w, revision.Tools, "one__of_ada"); n > 0 && a.status() != "hit" {
				t.Errorf("list %d says %s", n, a)
			}
		}
	}, one)
}

// A caller whom a server has accepted and now refuses, at a call or a list, is no longer shown the lists of before: not
// even once, as the last ones that there are.
func TestCallersWhomAServerRefusesLater(t *testing.T) {
	for name, refuses := range map[string]func(w *world, c *caller, one *member){
		"a call": func(w *world, c *caller, _ *member) {
			c.call("one__of_ada").want(w, "a call that is refused", http.StatusBadGateway, -32603)
		},
		"a list that has changed":   func(w *world, _ *caller, one *member) { w.outdate(one, revision.Tools) },
		"a list whose time is over": func(w *world, _ *caller, _ *member) { w.after(time.Minute) },
	} {
		for _, speaks := range both {
			for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
				t.Run(fmt.Sprintf("%s of a server of %s, %d", name, speaks, status), func(t *testing.T) {
					one := private("one", speaks)
					one.Hints = `"ttlMs":60000,"cacheScope":"private"`
					run(t, func(w *world) {
						lists := one.Script("tools/list")
						w.eachEra(func(c *caller) {
							c.list(revision.Tools).wantNames(w, revision.Tools, "one__of_ada", "open__tools_a", "open__tools_b")
							one.On("tools/list", clienttest.Status(status))
							one.On("tools/call", clienttest.Status(status))
							refuses(w, c, one)
							a := c.list(revision.Tools)
							if a.wantNames(w, revision.Tools, "open__tools_a", "open__tools_b"); strings.Contains(a.status(), "detail=") {
								t.Errorf("at %s, the list without that server says %s", c.at, a)
							}
							one.On("tools/list", lists)
							w.after(callerlists.RefusalCounts)
						}, "Authorization", "Bearer ada")
					}, one, serves("open"))
				})
			}
		}
	}
}

// A caller whom a server refuses is not told any more what that server has said of itself.
func TestCallersAreToldNoMoreWhatServersAre(t *testing.T) {
	one := private("one", modern)
	one.On("server/discover", clienttest.Gives(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"Of one.",`+one.Hints+`}`))
	run(t, func(w *world) {
		c := w.calls(modern, "Authorization", "Bearer ada")
		for _, told := range []bool{true, false} {
			if a := c.list(revision.Discover); strings.Contains(a.Body.String(), "Of one.") != told {
				t.Errorf("the caller is told %s", a)
			}
			w.fails(one, clienttest.Status(http.StatusUnauthorized))
			c.call("one__of_ada").want(w, "a call that is refused", http.StatusBadGateway, -32603)
		}
	}, one)
}

// A configuration that has ended asks servers for no caller's lists that nobody waits for. A request that still waits is
// answered.
func TestEndedToolkitsAskForNobodyGone(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			one := private("one", speaks)
			run(t, func(w *world) {
				answer := one.holdsBack("tools/list")
				lists := one.Script("tools/list")
				var ended []string
				one.On("tools/list", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
					defer context.AfterFunc(r.Context(), func() { ended = append(ended, r.Header.Get("Authorization")) })()
					return lists(w, r, c)
				})
				begin := func(who string) (*received, func()) {
					return w.calls(modern, "Authorization", "Bearer "+who).beginList(revision.Tools)
				}
				_, leave := begin("ada")
				waits, leaveLater := begin("bob")
				leave()
				w.after(0)
				if len(ended) != 0 {
					t.Errorf("when a client leaves, lists end of %q", ended)
				}
				w.Close()
				w.after(0)
				if !slices.Equal(ended, []string{"Bearer ada"}) {
					t.Errorf("at the end of the configuration, lists end of %q", ended)
				}
				answer()
				waits.wantNames(w, revision.Tools, "one__of_bob")
				leaveLater()
			}, one)
		})
	}
}
