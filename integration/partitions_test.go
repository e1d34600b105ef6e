package integration

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestPrivateListsStayPrivate lets 64 authorization contexts, each with lists
// of its own that change now and then, ask at random: nobody ever gets a list
// of another context, and most get their own from the cache.
func TestPrivateListsStayPrivate(t *testing.T) {
	const contexts = 64
	w := newUpstream(t)
	w.SetHints(privateHour)
	for i := range contexts {
		w.markPrivate(i, 0)
	}
	w.start()
	var clients []*fixture.Raw
	for i := range contexts {
		for _, revision := range revisions {
			clients = append(clients, w.clientAs(revision, auth(i)))
		}
	}
	var lists, hits, foreign atomic.Int64
	var wg sync.WaitGroup
	stop := time.Now().Add(time.Duration(pick(2, 60)) * time.Second)
	for range 8 {
		wg.Go(func() {
			// The first list of each is a miss: a slow machine must get beyond
			// those.
			for time.Now().Before(stop) || lists.Load() < 4000 {
				n := rand.IntN(len(clients))
				method := scripted.ListMethods()[rand.IntN(4)]
				a, err := clients[n].TryList(t.Context(), method)
				if err != nil {
					t.Errorf("listing: %v", err)
					return
				}
				lists.Add(1)
				if a.CacheStatus().Hit {
					hits.Add(1)
				}
				if own := fmt.Sprintf("context %d,", n/len(revisions)); !strings.HasPrefix(markOf(a, method), own) {
					foreign.Add(1)
					t.Errorf("%s got %s", own, describe(a))
				}
				if rand.IntN(200) == 0 {
					w.markPrivate(n/len(revisions), rand.Int())
					w.Changed(scripted.Feeds, method)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d lists, %d hits, %d foreign", lists.Load(), hits.Load(), foreign.Load())
	if hits.Load()*4 < lists.Load() {
		t.Errorf("only %d of %d lists were hits", hits.Load(), lists.Load())
	}
}

func auth(i int) string { return fmt.Sprintf("Bearer token-%d", i) }

// markPrivate gives a context lists of its own.
func (w *world) markPrivate(context, generation int) {
	for _, method := range scripted.ListMethods() {
		w.SetPrivateList(auth(context), method, scripted.Items(method, fmt.Sprintf("context %d, %d", context, generation), 3))
	}
}

// TestWhatTellsCallersApart sends requests that differ in one credential: no
// two share a private list.
func TestWhatTellsCallersApart(t *testing.T) {
	for name, tc := range map[string]struct {
		header  string
		options []string
	}{
		"authorization": {"Authorization", nil},
		"cookie":        {"Cookie", nil},
		"dpop":          {"DPoP", nil},
		"named header":  {"X-Tenant", []string{"partition {http.request.header.X-Tenant}"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newUpstream(t)
			w.SetHints(privateHour)
			var setting sync.Mutex // the feeds ask at the same time
			for _, method := range scripted.ListMethods() {
				w.SetScript(method, func(x *scripted.Exchange) {
					setting.Lock()
					defer setting.Unlock()
					w.SetPrivateList(x.Auth, x.Method, scripted.Items(x.Method, x.R.Header.Get(tc.header), 3))
					x.Default()
				})
			}
			w.start(tc.options...)
			for round := range 3 {
				for _, value := range []string{"a=1", "a=2", "b=1"} {
					c := w.client(scripted.Modern)
					c.Header.Set(tc.header, value)
					a := c.List(toolsList)
					if markOf(a, toolsList) != value {
						t.Errorf("round %d, %s got %s", round, value, describe(a))
					}
					if round == 2 && !a.CacheStatus().Hit {
						t.Errorf("%s is not served its own list: %s", value, describe(a))
					}
				}
			}
		})
	}
}

// TestOriginalURITellsApart has tenants told apart by what their URI was before a
// rewrite, of which the server is told by a header.
func TestOriginalURITellsApart(t *testing.T) {
	w := newUpstream(t)
	w.SetHints(privateHour)
	var setting sync.Mutex
	w.SetScript(toolsList, func(x *scripted.Exchange) {
		setting.Lock()
		defer setting.Unlock()
		w.SetPrivateList(x.Auth, x.Method, scripted.Items(x.Method, x.R.Header.Get("X-Original"), 3))
		x.Default()
	})
	w.host.Start()
	p := startProxy(t, "route {\nrewrite * /mcp\n"+
		mcpCache(w.host.URL, "reverse_proxy {\nheader_up X-Original {http.request.orig_uri.path}\n}")+"\n}")
	for round := range 3 {
		for _, path := range []string{"/one/mcp", "/two/mcp"} {
			a := fixture.NewModern(t, "http://"+p.Addr+path, "").List(toolsList)
			if markOf(a, toolsList) != path {
				t.Errorf("round %d, %s got %s", round, path, describe(a))
			}
			if round == 2 && !a.CacheStatus().Hit {
				t.Errorf("%s is not served its own list: %s", path, describe(a))
			}
		}
	}
}

// TestScopeOfMixedPages gives pages of different scopes: together they are
// private.
func TestScopeOfMixedPages(t *testing.T) {
	w := newUpstream(t)
	var setting sync.Mutex // several ask at the same time
	w.SetScript(toolsList, func(x *scripted.Exchange) {
		setting.Lock()
		defer setting.Unlock()
		hints := publicHour
		if strings.Contains(string(x.Params), `"cursor"`) {
			hints = privateHour
		}
		w.SetHints(hints)
		x.Default()
	})
	w.SetList(toolsList, scripted.Items(toolsList, "first", 2), scripted.Items(toolsList, "second", 2)[1:])
	w.start()
	await(t, "the feed's list", func() bool { return w.host.CountFeed(toolsList) >= 2 })
	stranger := w.clientAs(scripted.Modern, "Bearer stranger")
	for range 3 {
		a := stranger.List(toolsList)
		if a.CacheStatus().Hit && a.Part("result", "nextCursor") == nil {
			t.Errorf("a stranger got the feed's private list: %s", describe(a))
		}
	}
}

// TestScopeOption serves lists that say nothing of their scope.
func TestScopeOption(t *testing.T) {
	for scope, shared := range map[string]bool{"private": false, "public": true} {
		t.Run(scope, func(t *testing.T) {
			w := newUpstream(t)
			w.SetHints(`"ttlMs":3600000`)
			w.SetDoor(func(r *http.Request) int { return 0 })
			w.start("scope " + scope)
			w.warm(scripted.Modern)
			w.warm(scripted.LatestLegacy)
			eachEra(t, func(t *testing.T, revision string) {
				c := w.clientAs(revision, "Bearer somebody")
				c.List(promptsList) // what lets a caller in is a list of its own
				if a := c.List(toolsList); a.CacheStatus().Hit != shared {
					t.Errorf("the first list of another context: %s", describe(a))
				}
			})
		})
	}
}
