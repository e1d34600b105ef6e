package lists

import (
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

func isNotice(c caddytest.Reply) bool { return c.Notice }

const (
	everySessions = 20
	everyLists    = 6
)

// TestEverything has every client open sessions with the reference server, one
// by one and then all at once. Once a session is open, the server registers more
// tools, by the capabilities of the client, and announces them to clients whose stream is open by
// then. Each client gets the tools that the server itself gives it. From the second list
// after the session's own notice on, the cache gives them.
func TestEverything(t *testing.T) {
	o := caddytest.InstalledOthers(t)
	server := caddytest.StartOther(t, fixture.FreeAddr(t), o.Everything()...)
	// The host counts the requests that reach the server.
	direct := &url.URL{Scheme: "http", Host: server.Addr}
	host := fixture.NewHost(t, &httputil.ReverseProxy{
		FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(direct) },
	})
	p := caddytest.StartProxy(t, caddytest.Directive(host.URL))
	want := make(map[string]caddytest.Reply)
	programs := o.SDKSessions()
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			for _, session := range caddytest.OpenSessions(t, program, direct.JoinPath("mcp").String(), 1, 1) {
				want[name] = session[len(session)-1]
			}
			if want[name].Count < 16 {
				t.Fatalf("direct, there are %d tools", want[name].Count)
			}
			asked := host.Count(scripted.ToolsList)
			sessions := caddytest.OpenSessions(t, program, p.URL, everySessions, everyLists)
			wantSame(t, sessions, want[name])
			wantHits(t, sessions)
			tally(t, sessions, host.Count(scripted.ToolsList)-asked)
		})
	}
	if t.Failed() {
		return
	}
	t.Run("at once", func(t *testing.T) {
		asked := host.Count(scripted.ToolsList)
		var mu sync.Mutex
		var all [][]caddytest.Reply
		var wg sync.WaitGroup
		for name, program := range programs {
			wg.Go(func() {
				sessions := caddytest.OpenSessions(t, program, p.URL, everySessions, everyLists)
				wantSame(t, sessions, want[name])
				mu.Lock()
				defer mu.Unlock()
				all = append(all, sessions...)
			})
		}
		wg.Wait()
		tally(t, all, host.Count(scripted.ToolsList)-asked)
	})
}

// wantSame fails if a list is not the one that the server itself gives.
func wantSame(t *testing.T, sessions [][]caddytest.Reply, want caddytest.Reply) {
	t.Helper()
	if len(sessions) != everySessions {
		t.Errorf("%d sessions of %d came to their end", len(sessions), everySessions)
	}
	for i, session := range sessions {
		for _, c := range session {
			if !c.Notice && c.Digest != want.Digest {
				t.Errorf("session %d is given %d tools (%s), want %d", i, c.Count, c.Status, want.Count)
			}
		}
	}
}

// wantHits fails if a list is forwarded though it is the second or a later one of
// the session, or since the session was told of a change. The client may have read
// of that only after the lists that the cache forwards because of it. And until the
// very first session has a hit, the feed may still be finding out what such clients
// are shown.
func wantHits(t *testing.T, sessions [][]caddytest.Reply) {
	t.Helper()
	for i, session := range sessions {
		before, learning := 0, i == 0
		for n, c := range session {
			if c.Notice {
				before = 0
				continue
			}
			later := session[n+1:]
			changed := strings.HasSuffix(c.Status, "; detail=changed")
			told := len(later) > 0 && later[0].Notice || changed && slices.ContainsFunc(later, isNotice)
			learning = learning && !c.IsHit()
			if before > 0 && !c.IsHit() && !told && !learning {
				t.Errorf("session %d: list %d since its beginning or its last notice is %s", i, before+1, c.Status)
			}
			before++
		}
	}
}

// tally logs how many lists were hits, by their place in the session.
func tally(t *testing.T, sessions [][]caddytest.Reply, asked int) {
	t.Helper()
	var hits [everyLists]int
	told, lists := 0, 0
	for _, session := range sessions {
		i := 0
		if slices.ContainsFunc(session, func(c caddytest.Reply) bool { return c.Notice }) {
			told++
		}
		for _, c := range session {
			if c.Notice {
				continue
			}
			if c.IsHit() {
				hits[i]++
			}
			i++
			lists++
		}
	}
	t.Logf("%s: %d sessions, %d told of a change; hits by place in the session: %v; %d lists made %d requests to the upstream",
		t.Name(), len(sessions), told, hits, lists, asked)
}
