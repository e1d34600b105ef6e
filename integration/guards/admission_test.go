package guards

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// newDoor starts a world whose upstream lets nobody in but the feed and those
// who present a token that allowed accepts.
func newDoor(t *testing.T, allowed func(token string) int, options ...string) *caddytest.World {
	t.Helper()
	w := caddytest.NewUpstream(t)
	w.SetDoor(func(r *http.Request) int {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if token == feedToken {
			return 0
		}
		return allowed(token)
	})
	w.Start(append(options, "guard bearer "+feedToken, "scope public")...)
	fixture.Await(t, "the feeds", func() bool { return w.Streams(scripted.Feeds) == len(caddytest.Revisions) })
	return w
}

// admitted returns a client whose lists are hits.
func admitted(w *caddytest.World, revision, token string) *fixture.Raw {
	w.T.Helper()
	c := w.ClientAs(revision, "Bearer "+token)
	c.Settle(scripted.ToolsList)
	return c
}

// TestDoorComesFirst lists with a token that the upstream refuses while
// everything is in the cache: the refusal comes through.
func TestDoorComesFirst(t *testing.T) {
	w := newDoor(t, func(token string) int {
		if token == "good" {
			return 0
		}
		return http.StatusUnauthorized
	})
	admitted(w, scripted.Modern, "good")
	for _, token := range []string{"", "bad", "good2", "Good"} {
		c := fixture.NewModern(t, w.Proxy.URL, "")
		if token != "" {
			c.Header.Set("Authorization", "Bearer "+token)
		}
		for _, method := range append(scripted.ListMethods(), "server/discover") {
			for range 2 {
				a := c.List(method)
				caddytest.WantForwarded(t, a)
				if a.Status != http.StatusUnauthorized || !strings.Contains(a.Header.Get("WWW-Authenticate"), "resource_metadata") {
					t.Errorf("token %q got %s, %v", token, a, a.Header)
				}
			}
		}
	}
}

// TestRefusalRevokes has the upstream refuse another request of an admitted
// client: from then on its lists are refused too.
func TestRefusalRevokes(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var refuse atomic.Bool
			w := newDoor(t, func(token string) int {
				if refuse.Load() && token == "a" {
					return status
				}
				return 0
			})
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				refuse.Store(false)
				c, other := admitted(w, revision, "a"), admitted(w, revision, "b")
				refuse.Store(true)
				caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1") // nobody has told us yet
				if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Status != status {
					t.Fatalf("the call gave %s", a)
				}
				for range 2 {
					a := c.List(scripted.ToolsList)
					caddytest.WantForwarded(t, a)
					if a.Status != status || a.Header.Get("WWW-Authenticate") == "" {
						t.Errorf("the refused client got %s", a)
					}
				}
				caddytest.WantHit(t, other.List(scripted.ToolsList), scripted.ToolsList, "v1")
			})
		})
	}
}

// TestAdmissionRunsOut lists again when the admission time is over: the
// upstream is asked, and its word renews the admission.
func TestAdmissionRunsOut(t *testing.T) {
	w := newDoor(t, func(string) int { return 0 }, "admit upstream 200ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := admitted(w, revision, "a")
		before := w.Host.CountClients(scripted.ToolsList)
		c.AwaitList(scripted.ToolsList, "a forwarded list", func(a *fixture.Answer) bool { return !a.CacheStatus().Hit })
		if w.Host.CountClients(scripted.ToolsList) == before {
			t.Error("the upstream was not asked")
		}
		c.Settle(scripted.ToolsList)
	})
}

// TestAdmitAll has no door: handlers in front do that.
func TestAdmitAll(t *testing.T) {
	w := newDoor(t, func(string) int { return http.StatusUnauthorized }, "admit all")
	c := w.ClientAs(scripted.Modern, "Bearer unknown")
	for _, method := range scripted.ListMethods() {
		c.Settle(method)
	}
	if n := w.Host.CountClients(scripted.ToolsList); n > 1 {
		t.Errorf("%d lists reached the upstream", n)
	}
}

// TestSessionsAreBound uses a session that is served from the cache in ways
// that its owner does not.
func TestSessionsAreBound(t *testing.T) {
	w := newDoor(t, func(string) int { return 0 })
	owner := admitted(w, scripted.LatestLegacy, "owner")
	for name, header := range map[string]http.Header{
		"no credentials":    {"Authorization": {}},
		"other credentials": {"Authorization": {"Bearer thief"}},
		"more credentials":  {"Cookie": {"a=b"}},
		"other revision":    {"Mcp-Protocol-Version": {"2025-06-18"}},
		"no session":        {"Mcp-Session-Id": {}},
		"unknown session":   {"Mcp-Session-Id": {"session-0"}},
	} {
		thief := fixture.NewModern(t, w.Proxy.URL, "")
		thief.Revision, thief.Session = owner.Revision, owner.Session
		h := http.Header{"Authorization": {"Bearer owner"}}
		maps.Copy(h, header)
		before := w.Host.CountClients(scripted.ToolsList)
		caddytest.WantForwarded(t, thief.Post(fixture.Message("1", scripted.ToolsList, "{}"), h))
		if n := w.Host.CountClients(scripted.ToolsList) - before; n != 1 {
			t.Errorf("%s: %d requests reached the upstream", name, n)
		}
	}
	// The upstream has let others use the session: whose it is, it says again.
	caddytest.WantHit(t, owner.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
}

// TestForgottenSessions restarts an upstream that forgets its sessions: as soon
// as one request of a session is answered 404, so are its lists.
func TestForgottenSessions(t *testing.T) {
	w := caddytest.NewWorld(t)
	c := w.Warm(scripted.LatestLegacy)
	w.ForgetSessions()
	if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Status != http.StatusNotFound {
		t.Fatalf("the call gave %s", a)
	}
	caddytest.WantEnded(t, c)
	again := w.Client(scripted.LatestLegacy)
	caddytest.WantHit(t, again.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	fixture.Await(t, "the feed's new session", func() bool { _, feeds := w.Sessions(); return feeds == 1 })
}
