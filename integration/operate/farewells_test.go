package operate

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// manyHandlers is how many handlers TestStoppingManyHandlers has beside those
// of its short form.
var manyHandlers = flag.Int("handlers", 0, "how many handlers TestStoppingManyHandlers stops at once; 0 for its usual number")

// mute serves MCP and never answers a DELETE: whoever says farewell waits. It
// counts who does, and notes when two wait at once.
func mute(s *scripted.Server, farewells *atomic.Int64, together *atomic.Bool) http.Handler {
	var waiting atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			farewells.Add(1)
			if waiting.Add(1) > 1 {
				together.Store(true)
			}
			<-r.Context().Done()
			waiting.Add(-1)
			return
		}
		s.ServeHTTP(w, r)
	})
}

// paths are sites of so many handlers, each with an endpoint and so a session
// of its own at one host.
func paths(url string, n int) string {
	var site strings.Builder
	for i := range n {
		fmt.Fprintf(&site, "handle /%d {\n%s\n}\n", i, caddytest.Directive(fmt.Sprintf("%s/%d", strings.TrimSuffix(url, "/mcp"), i), fmt.Sprintf("name h%d", i)))
	}
	return site.String()
}

// TestFarewellsAreSaidSideBySide reloads and stops in front of servers that
// never answer the end of a session: none is told only when another was given up.
func TestFarewellsAreSaidSideBySide(t *testing.T) {
	caddytest.CheckGoroutines(t)
	const servers = 15
	var farewells atomic.Int64
	var together atomic.Bool
	s := scripted.New()
	host := fixture.NewHost(t, mute(s, &farewells, &together))
	proxy := caddytest.StartProxy(t, "respond gone 410")
	sessions := func() bool {
		_, feeds := s.Sessions()
		return feeds == servers && s.Streams(scripted.Feeds) == 2*servers
	}
	for what, next := range map[string]func(){
		"reloading": func() { proxy.Reload("respond gone 410") },
		"stopping":  func() { caddytest.GoIdle(t) },
	} {
		proxy.Reload("respond gone 410")
		// All of them have said farewell by now, so none opens a session after this.
		s.ForgetSessions() // a mute server never learns of their end
		farewells.Store(0)
		together.Store(false)
		proxy.Reload(paths(host.URL, servers))
		fixture.Await(t, "all feeds", sessions)
		next()
		fixture.Await(t, what+": the farewells of all servers", func() bool { return farewells.Load() == servers })
		if !together.Load() {
			t.Errorf("%s: servers were told one by one", what)
		}
	}
}

// TestStoppingManyHandlers stops handlers whose servers are in good health.
func TestStoppingManyHandlers(t *testing.T) {
	handlers := caddytest.Pick(100, 1000)
	if *manyHandlers > 0 {
		handlers = *manyHandlers
	}
	caddytest.CheckGoroutines(t)
	s := scripted.New()
	s.SetCapabilities(`{"tools":{}}`) // no streams: servers and feeds share one process's descriptors
	host := fixture.NewHost(t, s)
	proxy := caddytest.StartProxy(t, paths(host.URL, handlers))
	feeds := func() int { _, n := s.Sessions(); return n }
	fixture.AwaitFor(t, 2*time.Minute, "all feeds", func() bool { return feeds() >= handlers && host.CountFeed(scripted.ToolsList) >= 2*handlers })
	t.Logf("%d handlers have %d sessions", handlers, feeds())
	proxy.Reload("respond gone 410")
	fixture.Await(t, "the end of all sessions", func() bool { return feeds() == 0 })
}
