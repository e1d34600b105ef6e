package lists

import (
	"io"
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

// answersGET has every GET of a stream answered by get, until that is nil.
func answersGET(get *atomic.Pointer[http.HandlerFunc]) func(*scripted.Server) http.Handler {
	return func(s *scripted.Server) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if answer := get.Load(); answer != nil && r.Method == http.MethodGet {
				(*answer)(w, r)
				return
			}
			s.ServeHTTP(w, r)
		})
	}
}

// getting answers with that.
func getting(status int, contentType, body string) *http.HandlerFunc {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	return &answer
}

// TestNoStreamButAnAnswer has a GET answered with 200 and no event stream: the feed does
// not ask again, and the lists are kept (prompts.chat#1117, docmost#2133).
func TestNoStreamButAnAnswer(t *testing.T) {
	for name, answer := range map[string]*http.HandlerFunc{
		"JSON": getting(200, "application/json", `{"status":"ok"}`), "HTML": getting(200, "text/html", "<html>"),
		"text": getting(200, "text/plain", "hi"), "nothing": getting(204, "", ""),
	} {
		t.Run(name, func(t *testing.T) {
			var get atomic.Pointer[http.HandlerFunc]
			get.Store(answer)
			w := caddytest.NewUpstreamBehind(t, answersGET(&get))
			w.SetRevisions(scripted.LatestLegacy)
			w.Start("ttl 300ms", "refresh 10ms")
			w.Client(scripted.LatestLegacy).Settle(scripted.ToolsList)
			fixture.Await(t, "ten refreshes", func() bool { return w.Host.CountFeed(scripted.ToolsList) > 10 })
			if n := w.Host.CountFeedHTTP(http.MethodGet); n != 1 {
				t.Errorf("the feed asked for %d streams", n)
			}
			if n := w.Host.CountFeed("initialize"); n != 1 {
				t.Errorf("the feed opened %d sessions", n)
			}
		})
	}
}

// TestStreamRefusedAfterACut has a server refuse a new stream after one was cut: the
// session goes on, clients go on getting hits, and what was announced meanwhile is seen
// (render-mcp-server#26, mcp-sap-docs#75).
func TestStreamRefusedAfterACut(t *testing.T) {
	for name, answer := range map[string]*http.HandlerFunc{
		"400": getting(400, "text/plain", "only one stream"),
		"409": getting(409, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Conflict"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			var get atomic.Pointer[http.HandlerFunc]
			w := caddytest.NewUpstreamBehind(t, answersGET(&get))
			w.SetRevisions(scripted.LatestLegacy)
			w.Start("refresh 10ms")
			c := w.Warm(scripted.LatestLegacy)
			get.Store(answer)
			before := w.Host.CountFeedHTTP(http.MethodGet)
			w.EndStreams(scripted.Feeds)
			fixture.Await(t, "the refused stream", func() bool { return w.Host.CountFeedHTTP(http.MethodGet) > before+1 })
			caddytest.WantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
			w.Mark(scripted.ToolsList, "v2")
			w.Changed(scripted.Feeds, scripted.ToolsList) // nobody hears it
			get.Store(nil)
			c.AwaitList(scripted.ToolsList, "the change", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v2") })
			if n := w.Host.CountFeed("initialize"); n != 1 {
				t.Errorf("the feed opened %d sessions", n)
			}
		})
	}
}

// TestLostSessionInOtherWords has a server lose its sessions and answer them with a 401:
// the feed opens another one, and clients go on (punkpeye/mcp-proxy#108).
func TestLostSessionInOtherWords(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetRevisions(scripted.LatestLegacy)
	w.Start("ttl 300ms", "refresh 10ms")
	w.Warm(scripted.LatestLegacy)
	before := w.Host.CountFeed("initialize")
	w.SetDoor(func(r *http.Request) int {
		if id := r.Header.Get("Mcp-Session-Id"); id != "" && !w.Lives(id) {
			return http.StatusUnauthorized
		}
		return 0
	})
	w.ForgetSessions()
	w.Mark(scripted.ToolsList, "v2")
	fixture.Await(t, "another session of the feed", func() bool { return w.Host.CountFeed("initialize") > before })
	c := w.Client(scripted.LatestLegacy)
	c.AwaitList(scripted.ToolsList, "a hit", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v2") })
	fixture.Await(t, "five refreshes without another session", func() bool {
		opened, lists := w.Host.CountFeed("initialize"), feedLists(w, scripted.LatestLegacy)
		fixture.Await(t, "five refreshes", func() bool { return feedLists(w, scripted.LatestLegacy) >= lists+5 })
		return w.Host.CountFeed("initialize") == opened
	})
}

// TestAnyAcknowledgement has a server acknowledge notifications with a page, or never.
func TestAnyAcknowledgement(t *testing.T) {
	for name, answer := range map[string]scripted.Script{
		"HTML":  scripted.HTML,
		"201":   scripted.Status(http.StatusCreated),
		"never": func(x *scripted.Exchange) { <-x.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetRevisions(scripted.LatestLegacy)
			w.SetScript("notifications/initialized", func(x *scripted.Exchange) {
				if x.Feed {
					answer(x)
					return
				}
				x.Default()
			})
			w.Start()
			caddytest.WantHit(t, w.Client(scripted.LatestLegacy).Settle(scripted.ToolsList), scripted.ToolsList, "v1")
		})
	}
}

// TestListsThatAreNotOffered has servers that have a list though they do not offer it: to
// nobody, or to clients only that can do something (codebase-memory#1185, crush#1447).
func TestListsThatAreNotOffered(t *testing.T) {
	t.Run("to nobody", func(t *testing.T) {
		w := caddytest.NewUpstream(t)
		w.SetCapabilities(`{"tools":true,"prompts":null}`)
		w.Start()
		caddytest.EachEra(t, func(t *testing.T, revision string) {
			w := w.On(t)
			c := w.Client(revision)
			for _, method := range scripted.ListMethods() {
				caddytest.WantHit(t, c.Settle(method), method, "v1")
			}
		})
	})
	t.Run("to clients", func(t *testing.T) {
		w := caddytest.NewUpstream(t)
		w.SetRevisions(scripted.LatestLegacy)
		able := map[string]bool{}
		var mu sync.Mutex
		w.SetCapabilities(`{}`)
		w.SetScript("initialize", func(x *scripted.Exchange) {
			mu.Lock()
			defer mu.Unlock()
			x.Default()
			able[x.W.Header().Get("Mcp-Session-Id")] = strings.Contains(string(x.Params), "sampling")
		})
		w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
			mu.Lock()
			shown := able[x.Session]
			mu.Unlock()
			if !shown {
				x.Error(http.StatusOK, -32601, "method not found")
				return
			}
			x.Default()
		})
		w.Start()
		caddytest.WantHit(t, w.Client(scripted.LatestLegacy).Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	})
}

// TestReloadCancels stops the cache while the feed waits for a list: the server is told
// before the session ends.
func TestReloadCancels(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetRevisions(scripted.LatestLegacy)
	asked := make(chan struct{}, 10)
	w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		asked <- struct{}{}
		<-x.Done()
	})
	w.Start()
	<-asked
	w.Proxy.Reload("respond gone 410")
	fixture.Await(t, "the session's end", func() bool { return w.Host.CountFeedHTTP(http.MethodDelete) == 1 })
	if n := w.Host.CountFeed("notifications/cancelled"); n != 1 {
		t.Errorf("%d requests were cancelled", n)
	}
}

// TestToldInVain announces changes to the feed and to clients all the time, and nothing has
// changed (aspire#14375, BrowserOS#1005): status says so, and after each notice one list is asked
// for on behalf of all clients. One that has called a tool since gets its own: that may have
// changed.
func TestToldInVain(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetRevisions(scripted.LatestLegacy)
	w.Start("refresh 10ms")
	clients := make(map[*fixture.Raw]*fixture.Stream)
	for range 4 {
		c := w.Warm(scripted.LatestLegacy)
		clients[c] = c.Notices()
	}
	announce := func() {
		fixture.Await(t, "the streams", func() bool { return w.Streams(scripted.Everybody) == len(clients)+1 })
		w.Changed(scripted.Everybody, scripted.ToolsList)
		for _, s := range clients {
			s.Await("notifications/tools/list_changed")
		}
	}
	list := func() {
		for c := range clients {
			if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
				t.Errorf("after a notice, a list is %s", a)
			}
		}
	}
	fixture.Await(t, "the word in status", func() bool {
		announce()
		list()
		_, status := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil)
		return strings.Contains(string(status), `"notices_without_change":["tools"]`)
	})
	before := w.Host.CountClients(scripted.ToolsList)
	const rounds = 20
	for range rounds {
		announce()
		list()
	}
	// The feed's notice may come after the first client's list, and have another one asked for.
	if n := w.Host.CountClients(scripted.ToolsList) - before; n > 2*rounds {
		t.Errorf("%d lists were asked of the server, by %d clients after %d notices", n, len(clients), rounds)
	}
	var caller *fixture.Raw
	for caller = range clients {
		break
	}
	caller.Call("tools/call", caller.Params(`"name":"item-0000"`))
	caller.Settle(scripted.PromptsList) // so that it does not ask just because it has called a tool
	w.SetSessionList(caller.Session, scripted.ToolsList, scripted.Items(scripted.ToolsList, "own", 3))
	announce()
	for c := range clients {
		if c != caller {
			c.Settle(scripted.ToolsList)
		}
	}
	if a := caller.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "own" {
		t.Errorf("after a call and a notice, a list is %s", a)
	}
}

// TestSessionsThatLookIdle has a server end a session since it was asked nothing in it for a
// while, as lists are hits. From then on it is asked in sessions that only hit, and no hit waits
// for that (ContextForge#2033, hermes#49221).
func TestSessionsThatLookIdle(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetRevisions(scripted.LatestLegacy)
	w.Start()
	var lost time.Time
	lose := func() {
		c := w.Warm(scripted.LatestLegacy)
		idle := time.Now()
		fixture.Await(t, "a second without a request", func() bool {
			caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1")
			return time.Since(idle) > time.Second
		})
		w.EndSession(c.Session)
		if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Status != http.StatusNotFound {
			t.Fatalf("a call in a session that has ended gave %s", a)
		}
		lost = time.Now()
	}
	lose()
	c := w.Warm(scripted.LatestLegacy)
	asked := func() int {
		return len(w.Host.Requests(func(r *fixture.Request) bool {
			return r.Method == scripted.ToolsList && r.Header.Get("Mcp-Session-Id") == c.Session
		}))
	}
	before := asked()
	fixture.Await(t, "questions in the session", func() bool {
		caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1")
		if time.Since(lost) > 5*time.Second {
			lose()
		}
		return asked() >= before+3
	})
}
