package toolkit

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// lists are the kinds of which clients of both eras ask for lists.
var lists = []revision.Kind{revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates}

// A list has the items of all servers, in the servers' order. The names of tools and prompts have the servers'
// prefixes.
func TestListsAreJoined(t *testing.T) {
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b", "two__tools_a", "two__tools_b")
			c.list(revision.Prompts).wantNames(w, revision.Prompts, "one__prompts_a", "one__prompts_b", "two__prompts_a", "two__prompts_b")
			for _, k := range []revision.Kind{revision.Resources, revision.ResourceTemplates} {
				n := k.String()
				c.list(k).wantNames(w, k, "one://"+n+"_a", "one://"+n+"_b", "two://"+n+"_a", "two://"+n+"_b")
			}
		})
	}, serves("one"), serves("two", legacy))
}

// A list is answered from memory, in the words of the client's era: the servers are asked nothing for it.
func TestListsAskNobody(t *testing.T) {
	one, two := serves("one"), serves("two")
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			for _, k := range lists {
				before := len(one.asked(k.Method())) + len(two.asked(k.Method()))
				a := c.list(k)
				a.want(w, k.Method(), http.StatusOK, 0)
				if got := a.status(); got != "hit" {
					t.Errorf("Cache-Status of %s says %q", k.Method(), got)
				}
				var result map[string]json.RawMessage
				if err := json.Unmarshal(a.response().Result, &result); err != nil {
					t.Fatal(err)
				}
				isModern := c.at == modern
				for member, want := range map[string]string{"resultType": `"complete"`, "cacheScope": `"public"`, "ttlMs": "3600000"} {
					if got, has := result[member]; has != isModern || isModern && string(got) != want {
						t.Errorf("%s: %s is %s at %s", k.Method(), member, got, c.at)
					}
				}
				if after := len(one.asked(k.Method())) + len(two.asked(k.Method())); after != before {
					t.Errorf("%s had the servers be asked %d times", k.Method(), after-before)
				}
			}
		})
		if n := len(w.observed.outcomes); n == 0 || slices.Contains(w.observed.outcomes, outcome.Miss) {
			t.Errorf("the outcomes are %v", w.observed.outcomes)
		}
	}, one, two)
}

// A list is fresh for as long as all of its parts are, and a server without such a list says nothing of that.
func TestListsAreFreshAsTheirParts(t *testing.T) {
	brief := serves("brief")
	brief.Hints = `"ttlMs":60000,"cacheScope":"public"`
	run(t, func(w *world) {
		c := w.calls(modern)
		w.after(20 * time.Second)
		a := c.list(revision.Tools)
		if a.want(w, "a list", http.StatusOK, 0); a.status() != "hit" || a.ttl() != 40_000 {
			t.Errorf("after 20 s a list says %s", a)
		}
		a.wantNames(w, revision.Tools, "one__tools_a", "one__tools_b", "brief__tools_a", "brief__tools_b")
	}, serves("one"), brief, serves("none").lacks(revision.Tools))
	run(t, func(w *world) {
		if a := w.calls(modern).list(revision.Tools); a.status() != "hit" || a.ttl() != 60_000 || len(a.names(revision.Tools)) != 0 {
			t.Errorf("no server has tools, and a list says %s", a)
		}
	}, serves("none").lacks(revision.Tools))
}

// A list with a server's part that a change has outdated waits for the new part.
func TestListsWaitForChanges(t *testing.T) {
	one, two := serves("one"), serves("two")
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			now := c.at.String()
			two.Set(revision.Tools, now)
			w.outdate(two, revision.Tools)
			a := c.list(revision.Tools)
			if a.wantNames(w, revision.Tools, "one__tools_a", "one__tools_b", "two__"+now); a.status() != "fwd=uri-miss; stored; collapsed" {
				t.Errorf("the list says %s", a)
			}
		})
	}, one, two)
}

// slow has a server answer a list after so long.
func slow(m *member, k revision.Kind, d time.Duration) {
	m.On(k.Method(), func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
		select {
		case <-time.After(d):
			return m.Answer(w, r, c)
		case <-r.Context().Done():
			return r.Context().Err()
		}
	})
}

// lacks has a server know nothing of a kind.
func (m *member) lacks(k revision.Kind) *member {
	m.Kinds = slices.DeleteFunc(m.Kinds, func(other revision.Kind) bool { return other == k })
	m.On(k.Method(), clienttest.Failure(http.StatusOK, -32601, ""))
	return m
}

// A caller waits for a part that is not fresh for as long as a copy of that sort may be waited for. Then the last one
// is given, but where a caller may know of a change that it lacks: such a part is left out.
func TestListsWaitNoLonger(t *testing.T) {
	for name, tt := range map[string]struct {
		makes  func(w *world, m *member)
		waits  time.Duration // at most
		asked  bool          // its feed has asked the server already, and a caller waits for the rest of that time
		status string
		names  []string
	}{
		"a change that nobody was told of": {
			func(w *world, m *member) { w.outdate(m, revision.Tools) },
			time.Second, false, "hit; detail=stale", []string{"one__tools_a", "one__tools_b", "two__tools_a", "two__tools_b"},
		},
		"a change that any client may know of": {
			func(w *world, m *member) { m.of.Cache.BumpTold(revision.SetOf(revision.Tools)) },
			5 * time.Second, false, "hit; detail=partial", []string{"one__tools_a", "one__tools_b"},
		},
		"a list that is too old": {
			func(w *world, _ *member) { w.after(time.Hour) },
			time.Second, true, "hit; detail=stale", []string{"one__tools_a", "one__tools_b", "two__tools_a", "two__tools_b"},
		},
		"a list that is older than stale_if_error allows": {
			func(w *world, _ *member) { w.after(time.Hour + 10*time.Minute) },
			5 * time.Second, true, "hit; detail=partial", []string{"one__tools_a", "one__tools_b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := serves("one"), serves("two")
			two.settings.Stale.IfError = 10 * time.Minute
			run(t, func(w *world) {
				c := w.calls(modern)
				slow(two, revision.Tools, time.Hour)
				tt.makes(w, two)
				began := time.Now()
				a := c.list(revision.Tools)
				if waited := time.Since(began); waited > tt.waits || waited < tt.waits && !tt.asked {
					t.Errorf("it waited %s, want %s", waited, tt.waits)
				}
				a.wantNames(w, revision.Tools, tt.names...)
				if a.status() != tt.status || a.ttl() != 0 {
					t.Errorf("the list says %s", a)
				}
				isStale := w.observed.outcomes[len(w.observed.outcomes)-1] == outcome.Stale
				if isStale != strings.HasSuffix(tt.status, "stale") {
					t.Errorf("the outcomes are %v", w.observed.outcomes)
				}
			}, one, two)
		})
	}
}

// A list that its server never calls fresh is asked for each time. A server that takes its time has its last one
// given, and soon.
func TestListsThatAreNeverFresh(t *testing.T) {
	one := serves("one", modern)
	one.Hints = `"ttlMs":0,"cacheScope":"public"`
	run(t, func(w *world) {
		c := w.calls(modern)
		for _, item := range []string{"first", "second"} {
			one.Set(revision.Tools, item)
			a := c.list(revision.Tools)
			if a.wantNames(w, revision.Tools, "one__"+item); a.ttl() != 0 || !strings.HasPrefix(a.status(), "fwd=") {
				t.Errorf("the list says %s", a)
			}
		}
		slow(one, revision.Tools, time.Hour)
		began := time.Now()
		a := c.list(revision.Tools)
		if waited := time.Since(began); waited != shortPatience {
			t.Errorf("it waited %s", waited)
		}
		if a.wantNames(w, revision.Tools, "one__second"); a.status() != "hit; detail=stale" {
			t.Errorf("the list says %s", a)
		}
	}, one)
}

// The first lists wait for servers for as long as the gate, and tell of a server that has not answered by then.
func TestListsWaitForTheGate(t *testing.T) {
	slowly, never := serves("slowly"), serves("never")
	slow(slowly, revision.Tools, time.Second)
	never.OnAll(clienttest.Hang)
	runWith(t, setup{waits: true}, func(w *world) {
		c := &caller{w: w, at: modern}
		began := time.Now()
		a := c.list(revision.Tools)
		if waited := time.Since(began); waited != w.Settings.Gate {
			t.Errorf("the first list waited %s, want the gate of %s", waited, w.Settings.Gate)
		}
		a.wantNames(w, revision.Tools, "slowly__tools_a", "slowly__tools_b")
		if a.status() != "hit; detail=partial" || a.ttl() != 0 {
			t.Errorf("the first list says %s", a)
		}
		if w.Ready() != true {
			t.Error("the endpoint is not ready after the gate")
		}
	}, slowly, never)
}

// The endpoint is ready once a server has shown its lists, and all others have been asked, or the gate is over.
func TestReady(t *testing.T) {
	never := serves("never")
	never.OnAll(clienttest.Hang)
	runWith(t, setup{waits: true}, func(w *world) {
		w.begin()
		if w.Ready() {
			t.Error("it is ready while a server may still answer within the gate")
		}
		if w.after(w.Settings.Gate); !w.Ready() {
			t.Error("it is not ready after the gate")
		}
	}, serves("one"), never)
	never = serves("never")
	never.OnAll(clienttest.Hang)
	run(t, func(w *world) {
		if w.after(time.Minute); w.Ready() {
			t.Error("it is ready, and there are no lists at all")
		}
	}, never)
}

// A joined list has one page, so the endpoint refuses every cursor.
func TestListsHaveOnePage(t *testing.T) {
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			status := http.StatusOK // of errors in the legacy era
			if c.at == modern {
				status = http.StatusBadRequest
			}
			c.ask("tools/list", `"cursor":"2"`).want(w, "a cursor", status, -32602)
		})
	}, serves("one"))
}

// A client that can read a compressed list is sent one, once the endpoint has compressed it.
func TestListsAreCompressed(t *testing.T) {
	one := serves("one")
	var names []string
	for range 200 {
		names = append(names, strings.Repeat("n", 50))
	}
	one.Set(revision.Resources, names...)
	runWith(t, setup{settings: func(s *Settings) { s.Precompress = true }}, func(w *world) {
		w.eachEra(func(c *caller) {
			c.header.Set("Accept-Encoding", "gzip")
			c.list(revision.Resources) // which has it compressed
			synctest.Wait()
			if a := c.list(revision.Resources); a.Header().Get("Content-Encoding") != "gzip" {
				t.Errorf("at %s the list has the header %v", c.at, a.Header())
			}
			c.header.Del("Accept-Encoding")
			if a := c.list(revision.Resources); a.Header().Get("Content-Encoding") != "" {
				t.Errorf("a client that cannot read it is sent the header %v", a.Header())
			}
		})
	}, one)
}

// A large list of a single caller waits while others are being written that take all the memory. It is refused with
// 503 if that lasts, and the client is told when to come back.
func TestListsWaitForMemory(t *testing.T) {
	one := serves("one", modern).personal()
	one.Set(revision.Resources, strings.Repeat("n", 200_000))
	runWith(t, setup{settings: func(s *Settings) { s.Memory = 1 << 20 }}, func(w *world) {
		c := w.calls(modern, "Authorization", "Bearer a")
		c.list(revision.Resources).want(w, "a large list", http.StatusOK, 0)
		other := entryOf(t, modern, revision.Resources, strings.Repeat("o", 2<<20))
		if !w.cache.Hold(other) {
			t.Fatal("the other list is not held")
		}
		a := c.list(revision.Resources)
		if a.want(w, "a list without memory", http.StatusServiceUnavailable, -32603); a.Header().Get("Retry-After") != "1" {
			t.Errorf("the refusal says %v", a.Header())
		}
		if a := c.list(revision.Tools); a.status() != "fwd=uri-miss; stored; collapsed" {
			t.Errorf("a small list says %s", a)
		}
		waiting, leave := c.beginList(revision.Resources)
		defer leave()
		if waiting.isOver() {
			t.Fatalf("the list does not wait: %s", waiting)
		}
		w.cache.Release(other)
		synctest.Wait()
		if !waiting.isOver() {
			t.Fatal("the list waits though there is memory again")
		}
		waiting.want(w, "the list that has waited", http.StatusOK, 0)
	}, one)
}

// A tool may change its server's lists, and not all servers say so. Once a client has called one and lists again, the
// endpoint asks the server, and the next list has the change.
func TestListsAfterCalls(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			one := serves("one", speaks)
			one.Quiet = true
			run(t, func(w *world) {
				w.eachEra(func(c *caller) {
					item := "new_at_" + c.at.Era().String()
					one.Set(revision.Tools, "tools_a", item)
					c.call("one__tools_a").wantOf(w, "one")
					c.list(revision.Tools) // which may be the last one
					w.after(one.settings.Feed.Refresh)
					c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__"+item)
				})
			}, one)
		})
	}
}
