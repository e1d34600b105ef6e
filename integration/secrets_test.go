package integration

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

const (
	feedToken   = "feed-secret-4f1c"
	clientToken = "client-secret-9a7e"
)

// TestCredentialsDoNotCross runs a guarded feed and clients with credentials,
// through good times and bad: the upstream sees each token on its owner's
// requests only, and nobody else sees any.
func TestCredentialsDoNotCross(t *testing.T) {
	for name, guard := range map[string]func(t *testing.T) string{
		"literal": func(*testing.T) string { return "guard bearer " + feedToken },
		"variable": func(t *testing.T) string {
			t.Setenv("MCP_CACHE_TEST_TOKEN", feedToken)
			return "guard bearer {env.MCP_CACHE_TEST_TOKEN}"
		},
		"file": func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(feedToken+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return "guard bearer {\nfile " + file + "\n}"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newUpstream(t)
			w.SetHints(scripted.PublicBrief)
			w.SetDoor(func(r *http.Request) int {
				if auth := r.Header.Get("Authorization"); auth != "Bearer "+feedToken && auth != "Bearer "+clientToken {
					return http.StatusUnauthorized
				}
				return 0
			})
			w.host.Start()
			w.proxy = startProxy(t, "log\nroute {\n"+mcpCache(w.host.URL, guard(t), "refresh 50ms", "ttl 300ms")+"\n}")
			eachEra(t, func(t *testing.T, revision string) {
				w := w.on(t)
				c := w.clientAs(revision, "Bearer "+clientToken)
				c.Settle(scripted.ToolsList)
				c.Call("tools/call", c.Params(`"name":"item-0000"`))
				w.SetScript("*", scripted.Status(http.StatusInternalServerError))
				c.AwaitList(scripted.ToolsList, "a stale hit", isStale)
				w.SetScript("*", nil)
				c.AwaitList(scripted.ToolsList, "a fresh hit", func(a *fixture.Answer) bool { return a.CacheStatus().Hit && !isStale(a) })
			})
			for _, r := range w.host.Requests(func(*fixture.Request) bool { return true }) {
				want := "Bearer " + clientToken
				if r.Feed {
					want = "Bearer " + feedToken
				}
				if got := r.Header.Get("Authorization"); got != want {
					t.Errorf("%s %s (feed: %v) had Authorization %q", r.HTTPMethod, r.Method, r.Feed, got)
				}
			}
			for _, secret := range []string{feedToken, clientToken} {
				if strings.Contains(w.proxy.log(), secret) {
					t.Errorf("the log has %s", secret)
				}
			}
		})
	}
}

// TestKeysInURLsShowNowhere: some services take a caller's key in the path, or as a query of its own. The log and
// the status tell of such requests without the key.
func TestKeysInURLsShowNowhere(t *testing.T) {
	t.Run("several servers", func(t *testing.T) {
		w := newUpstream(t)
		w.host.Start()
		w.proxy = startProxy(t, toolkitOf([]member{{"one", w.host.URL, nil}}))
		w.hidesKeysInURLs(t)
	})
	t.Run("one server", func(t *testing.T) {
		w := newUpstream(t)
		w.host.Start()
		w.proxy = startProxy(t, mcpCache(w.host.URL, "scope public", "admit all"))
		w.hidesKeysInURLs(t)
		for _, text := range []string{"(path: /…/…/mcp, ", "(query: …, ", "(query: toolsets, "} {
			wantWarning(t, text)
		}
	})
}

func (w *world) hidesKeysInURLs(t *testing.T) {
	t.Helper()
	const key = "planted-key"
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		w.clientAs(revision, "").Settle(scripted.ToolsList)
		// A toolkit does not answer there.
		_, _ = fixture.NewModern(t, "http://"+w.proxy.Addr+"/s/"+key+"/mcp", "").Try(t.Context(), http.MethodPost, fixture.Message("1", "ping", "{}"), nil)
		for _, query := range []string{"?" + key, "?key%3D" + key, "?" + key + "=", "?toolsets=" + key} {
			fixture.NewWith(t, w.proxy.URL+query, revision, "", nil).List(scripted.ToolsList)
		}
	})
	_, status := askAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil)
	if strings.Contains(string(status), key) {
		t.Errorf("the status has the key: %s", status)
	}
	for line := range strings.Lines(w.proxy.log()) {
		if strings.Contains(line, key) && !strings.Contains(line, `{"level":"debug"`) { // reverse_proxy's has the URI
			t.Errorf("the log has the key: %s", line)
		}
	}
}

// TestTokenFileIsReadAgain replaces the feed's token, when the upstream has
// stopped to accept the old one.
func TestTokenFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newUpstream(t)
	w.SetHints(scripted.PublicBrief)
	var refused atomic.Int64
	accept := func(tokens ...string) {
		w.SetDoor(func(r *http.Request) int {
			for _, token := range append(tokens, "client") {
				if r.Header.Get("Authorization") == "Bearer "+token {
					return 0
				}
			}
			refused.Add(1)
			return http.StatusUnauthorized
		})
	}
	accept("old")
	w.start("guard bearer {\nfile "+file+"\n}", "refresh 50ms")
	c := w.clientAs(scripted.Modern, "Bearer client")
	c.Settle(scripted.ToolsList)
	awaitReady(t, "mcp_cache") // the feed has used the old token in both eras
	accept("new")
	fixture.Await(t, "a refusal of the feed", func() bool { return refused.Load() > 0 })
	if a := c.List(scripted.ToolsList); !isWhole(a) {
		t.Errorf("after the refusal, a list is %s", a)
	}
	if err := os.WriteFile(file, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.mark(scripted.ToolsList, "v2")
	fixture.Await(t, "a refresh with the new token", func() bool {
		return len(w.host.Requests(func(r *fixture.Request) bool {
			return r.Method == scripted.ToolsList && r.Header.Get("Authorization") == "Bearer new"
		})) > 0
	})
	c.AwaitList(scripted.ToolsList, "the new token's list", func(a *fixture.Answer) bool { return isHit(a, scripted.ToolsList, "v2") && !isStale(a) })
}
