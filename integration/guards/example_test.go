package guards

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestExampleGuard runs the guard of examples/guard: the feed comes with its
// user and password, a client with its own.
func TestExampleGuard(t *testing.T) {
	t.Setenv("MCP_CACHE_TEST_PASSWORD", "planted-password-6b2e")
	w := caddytest.NewUpstream(t)
	w.SetDoor(func(r *http.Request) int {
		user, password, _ := r.BasicAuth()
		if user == feedAccount && password == "planted-password-6b2e" || user == userAccount && password == "own" {
			return 0
		}
		return http.StatusUnauthorized
	})
	w.Start("guard basic " + feedAccount + " {env.MCP_CACHE_TEST_PASSWORD}")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.Host.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(userAccount, "own")
	c := w.ClientAs(scripted.Modern, r.Header.Get("Authorization"))
	caddytest.WantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	caddytest.AwaitState(t, "ready")
	r.SetBasicAuth(feedAccount, "planted-password-6b2e")
	for _, seen := range w.Host.Requests(func(r *fixture.Request) bool { return r.Feed }) {
		if seen.Header.Get("Authorization") != r.Header.Get("Authorization") {
			t.Errorf("%s of the feed came with %q", seen.Method, seen.Header.Get("Authorization"))
		}
	}
	wantNoSecrets(t, "the log", w.Proxy.Log())
	for _, wrong := range []string{"basic", "basic a", "basic a b c", "basic a b {\nfile c\n}", "basic a:b c", `basic "" b`, "basic a {env.MCP_CACHE_TEST_UNSET}"} {
		if err := w.Proxy.TryReload(caddytest.Directive(w.Host.URL, "guard "+wrong)); err == nil {
			t.Errorf("%s was loaded", wrong)
		}
	}
}
