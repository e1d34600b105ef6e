package lists

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestPrivateListsStayPrivate lets 64 authorization contexts, each with lists
// of its own that change now and then, ask at random: nobody ever gets a list
// of another context, and most get their own from the cache.
func TestPrivateListsStayPrivate(t *testing.T) {
	const contexts = 64
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PrivateHour)
	for i := range contexts {
		markPrivate(w, i, 0)
	}
	w.Start()
	var clients []*fixture.Raw
	for i := range contexts {
		for _, revision := range caddytest.Revisions {
			clients = append(clients, w.ClientAs(revision, auth(i)))
		}
	}
	var lists, hits, foreign atomic.Int64
	var wg sync.WaitGroup
	stop := time.Now().Add(time.Duration(caddytest.Pick(2, 60)) * time.Second)
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
				if own := fmt.Sprintf("context %d,", n/len(caddytest.Revisions)); !strings.HasPrefix(caddytest.MarkOf(a, method), own) {
					foreign.Add(1)
					t.Errorf("%s got %s", own, a)
				}
				if rand.IntN(200) == 0 {
					markPrivate(w, n/len(caddytest.Revisions), rand.Int())
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
func markPrivate(w *caddytest.World, context, generation int) {
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
			w := caddytest.NewUpstream(t)
			w.SetHints(scripted.PrivateHour)
			listBy(w, func(r *http.Request) string { return r.Header.Get(tc.header) })
			w.Start(tc.options...)
			for round := range 3 {
				for _, value := range []string{"a=1", "a=2", "b=1"} {
					c := w.Client(scripted.Modern)
					c.Header.Set(tc.header, value)
					a := c.List(scripted.ToolsList)
					if caddytest.MarkOf(a, scripted.ToolsList) != value {
						t.Errorf("round %d, %s got %s", round, value, a)
					}
					if round == 2 && !a.CacheStatus().Hit {
						t.Errorf("%s is not served its own list: %s", value, a)
					}
				}
			}
		})
	}
}

// listBy has each request get lists of its own tenant, whom tenant finds in it.
func listBy(w *caddytest.World, tenant func(*http.Request) string) {
	var setting sync.Mutex // the feeds ask at the same time
	for _, method := range scripted.ListMethods() {
		w.SetScript(method, func(x *scripted.Exchange) {
			setting.Lock()
			defer setting.Unlock()
			w.SetPrivateList(x.Auth, x.Method, scripted.Items(x.Method, tenant(x.R), 3))
			x.Default()
		})
	}
}

// TestOriginalURITellsApart has tenants told apart by what their URI was before a
// rewrite, of which the server is told by a header.
func TestOriginalURITellsApart(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PrivateHour)
	listBy(w, func(r *http.Request) string { return r.Header.Get("X-Original") })
	w.Host.Start()
	p := caddytest.StartProxy(t, "route {\nrewrite * /mcp\n"+
		caddytest.Directive(w.Host.URL, "reverse_proxy {\nheader_up X-Original {http.request.orig_uri.path}\n}")+"\n}")
	for round := range 3 {
		for _, path := range []string{"/one/mcp", "/two/mcp"} {
			a := fixture.NewModern(t, "http://"+p.Addr+path, "").List(scripted.ToolsList)
			if caddytest.MarkOf(a, scripted.ToolsList) != path {
				t.Errorf("round %d, %s got %s", round, path, a)
			}
			if round == 2 && !a.CacheStatus().Hit {
				t.Errorf("%s is not served its own list: %s", path, a)
			}
		}
	}
}

// TestUpstreamsValuesTellApart has tenants told apart inside the wrapped proxy, by
// values of their requests that the feed's do not have: none is given the list of
// another or of nobody, whatever the server says of who may share it.
func TestUpstreamsValuesTellApart(t *testing.T) {
	const key = "request_header @tenant X-Key {re.t.1}"
	tenants := map[string]struct{ front, inside, options string }{
		"variable":            {"vars @tenant tenant {re.t.1}", "header_up X-Tenant {vars.tenant}", ""},
		"variable with space": {`vars @tenant "my tenant" {re.t.1}`, `header_up X-Tenant "{http.vars.my tenant}"`, ""},
		"map":                 {"map {http.request.orig_uri.path} {tenant} {\n/ant/mcp ant\n/bee/mcp bee\ndefault none\n}", "header_up X-Tenant {tenant}", ""},
		"regular expression":  {"", "header_up X-Tenant {re.t.1}", ""},
		"label":               {"request_header @tenant Host {re.t.1}.localhost", "header_up X-Tenant {labels.1}", ""},
		"another Host":        {"request_header @tenant Host {re.t.1}.localhost", "header_up Host {labels.1}.internal", ""},
		"rewrite":             {"vars @tenant tenant {re.t.1}", "rewrite /{vars.tenant}/mcp", ""},
		"credential, rewrite": {key, "rewrite /{header.X-Key}/mcp", ""},
		"partition":           {key, "header_up X-Tenant {header.X-Key}", "scope public always\npartition {header.X-Key}\n"},
	}
	for name, site := range tenants {
		for _, hints := range []string{"", scripted.PrivateHour, scripted.PublicHour} {
			t.Run(name+" "+hints, func(t *testing.T) {
				w := caddytest.NewUpstream(t)
				w.SetHints(hints)
				listBy(w, tenantTold)
				w.Host.Start()
				p := caddytest.StartProxy(t, "@tenant path_regexp t ^/([a-z]+)/mcp$\nroute {\n"+site.front+"\nrewrite @tenant /mcp\n"+
					caddytest.Directive(w.Host.URL, site.options+"reverse_proxy {\n"+site.inside+"\n}")+"\n}")
				fixture.Await(t, "the feeds' lists", func() bool { return w.Host.CountFeed(scripted.ToolsList) >= len(caddytest.Revisions) })
				for _, revision := range caddytest.Revisions {
					for round := range 3 {
						for _, tenant := range []string{"ant", "bee"} {
							a := fixture.New(t, "http://"+p.Addr+"/"+tenant+"/mcp", revision, "").List(scripted.ToolsList)
							if caddytest.MarkOf(a, scripted.ToolsList) != tenant {
								t.Errorf("%s, round %d: %s got %s", revision, round, tenant, a)
							}
							if round == 2 && !a.CacheStatus().Hit {
								t.Errorf("%s is not served its own list: %s", tenant, a)
							}
						}
					}
				}
			})
		}
	}
}

// tenantTold returns the tenant that a proxy tells the server of by a header, the
// path or the Host; "" if by none.
func tenantTold(r *http.Request) string {
	path, _ := strings.CutSuffix(r.URL.Path, "/mcp")
	host, _ := strings.CutSuffix(r.Host, ".internal")
	if host == r.Host {
		host = ""
	}
	return cmp.Or(r.Header.Get("X-Tenant"), strings.Trim(path, "/"), host)
}

// TestValuesThatTellNobodyApart has the proxy send values that are empty for all, or
// new with each connection: callers share lists all the same.
func TestValuesThatTellNobodyApart(t *testing.T) {
	for _, value := range []string{"{tls_version}", "{vars.trace}", "{remote}"} {
		w := caddytest.NewUpstream(t)
		w.SetHints(scripted.PrivateHour)
		w.Start("reverse_proxy {\nheader_up X-Value " + value + "\n}")
		for _, revision := range caddytest.Revisions {
			w.Client(revision).AwaitList(scripted.ToolsList, "a list as a hit", func(a *fixture.Answer) bool { return a.CacheStatus().Hit })
			if a := w.Client(revision).List(scripted.ToolsList); !a.CacheStatus().Hit {
				t.Errorf("%s: another caller is not served it: %s", value, a)
			}
		}
	}
}

// TestPublicListsOfValues says scope public where tenants are told apart inside the proxy.
// They stay apart, and the log names the values. The option harmless makes them share.
func TestPublicListsOfValues(t *testing.T) {
	w := caddytest.NewUpstream(t)
	listBy(w, tenantTold)
	tell := "reverse_proxy {\nheader_up X-Tenant {labels.1}\nheader_up X-Real-IP {remote_host}\n}"
	w.Start("scope public", tell)
	const said = `are kept for each of them, also public ones`
	if n := strings.Count(w.Proxy.Log(), said); n != 1 || !strings.Contains(w.Proxy.Log(), `"placeholders":["http.request.host.labels.1"]`) {
		t.Errorf("the log names the values %d times", n)
	}
	for _, tenant := range []string{"ant", "bee"} {
		c := w.Client(scripted.Modern)
		c.Header.Set("Host", tenant+".localhost")
		for range 2 {
			if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != tenant {
				t.Errorf("%s got %s", tenant, a)
			}
		}
		c.AwaitList(scripted.ToolsList, "the tenant's own list as a hit", func(a *fixture.Answer) bool {
			return a.CacheStatus().Hit && caddytest.MarkOf(a, scripted.ToolsList) == tenant
		})
	}
	w.Proxy.Reload(caddytest.Directive(w.Host.URL, "scope public", "partition {labels.1}", tell))
	if n := strings.Count(w.Proxy.Log(), said); n != 1 {
		t.Errorf("with partition, the log names the values once more")
	}
	w.Proxy.Reload(caddytest.Directive(w.Host.URL, "scope public", "harmless X-Tenant", tell))
	w.Client(scripted.Modern).Settle(scripted.ToolsList)
}

// TestScopeOfMixedPages gives pages of different scopes: together they are
// private.
func TestScopeOfMixedPages(t *testing.T) {
	w := caddytest.NewUpstream(t)
	var setting sync.Mutex // several ask at the same time
	w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		setting.Lock()
		defer setting.Unlock()
		hints := scripted.PublicHour
		if strings.Contains(string(x.Params), `"cursor"`) {
			hints = scripted.PrivateHour
		}
		w.SetHints(hints)
		x.Default()
	})
	w.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "first", 2), scripted.Items(scripted.ToolsList, "second", 2)[1:])
	w.Start()
	fixture.Await(t, "the feed's list", func() bool { return w.Host.CountFeed(scripted.ToolsList) >= 2 })
	stranger := w.ClientAs(scripted.Modern, "Bearer stranger")
	for range 3 {
		a := stranger.List(scripted.ToolsList)
		if a.CacheStatus().Hit && a.Part("result", "nextCursor") == nil {
			t.Errorf("a stranger got the feed's private list: %s", a)
		}
	}
}

// TestScopeOption serves lists that say nothing of their scope.
func TestScopeOption(t *testing.T) {
	for scope, shared := range map[string]bool{"private": false, "public": true} {
		t.Run(scope, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetHints(`"ttlMs":3600000`)
			w.SetDoor(func(r *http.Request) int { return 0 })
			w.Start("scope " + scope)
			w.Warm(scripted.Modern)
			w.Warm(scripted.LatestLegacy)
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				c := w.ClientAs(revision, "Bearer somebody")
				c.List(scripted.PromptsList) // what lets a caller in is a list of its own
				if a := c.List(scripted.ToolsList); a.CacheStatus().Hit != shared {
					t.Errorf("the first list of another context: %s", a)
				}
			})
		})
	}
}
