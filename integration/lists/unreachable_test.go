package lists

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestUnreachableServer tells clients in the protocol's words that the server cannot be
// reached, each with its own id, and Caddy's log why, once.
func TestUnreachableServer(t *testing.T) {
	h := fixture.NewDownHost(t, scripted.New())
	p := caddytest.StartProxy(t, "encode\n"+caddytest.Directive(h.URL, "admit all")) // callers share fetches
	c := fixture.NewModern(t, p.URL, "")
	named := http.Header{"Mcp-Method": {scripted.ToolsList}}
	const told = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the MCP server cannot be reached"}}`
	logged := func() int { return strings.Count(p.Log(), `"logger":"http.log.error"`) }

	list := c.Post(fixture.Message("7", scripted.ToolsList, c.Params("")), named)
	if want := fmt.Sprintf(told, "7"); list.Status != http.StatusBadGateway || string(list.Body) != want || list.Header.Get("Content-Type") != "application/json" {
		t.Errorf("a list gave %d, %v, %s; want %s", list.Status, list.Header, list.Body, want)
	}
	caddytest.WantForwarded(t, list)
	fixture.Await(t, "the error in the log", func() bool { return logged() == 1 })
	if !strings.Contains(p.Log(), "connect: connection refused") {
		t.Errorf("the log does not say why:\n%s", p.Log())
	}

	var callers sync.WaitGroup
	for n := range 20 {
		callers.Go(func() {
			id := fmt.Sprintf(`"caller %d"`, n)
			a, err := fixture.Insist(func() (*fixture.Answer, error) {
				return c.Try(t.Context(), http.MethodPost, fixture.Message(id, scripted.ToolsList, c.Params("")), named)
			})
			if want := fmt.Sprintf(told, id); err != nil || string(a.Body) != want {
				t.Errorf("caller %d got %+v, %v; want %s", n, a, err, want)
			}
		})
	}
	callers.Wait()
	fixture.Await(t, "one error for each request in the log", func() bool { return logged() == 21 })

	res, err := c.Open(t.Context(), http.MethodGet, http.NoBody, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); res.StatusCode != http.StatusBadGateway || len(body) > 0 || err != nil {
		t.Errorf("a GET gave %d, %s, %v", res.StatusCode, body, err)
	}
}

// TestUnreachableServerOfASiteWithErrorRoutes has the site's own routes answer.
func TestUnreachableServerOfASiteWithErrorRoutes(t *testing.T) {
	h := fixture.NewDownHost(t, scripted.New())
	p := caddytest.StartProxy(t, caddytest.Directive(h.URL)+"\nhandle_errors {\nrespond \"sorry: {err.status_code}\"\n}")
	c := fixture.NewModern(t, p.URL, "")
	if a := c.List(scripted.ToolsList); a.Status != http.StatusBadGateway || string(a.Body) != "sorry: 502" {
		t.Errorf("with handle_errors a list gave %d, %s", a.Status, a.Body)
	}
	p.Reload(caddytest.Directive(h.URL) + "\nhandle_errors 404 {\nrespond \"sorry: {err.status_code}\"\n}")
	if a := c.List(scripted.ToolsList); a.Status != http.StatusBadGateway || !strings.Contains(string(a.Body), "-32603") {
		t.Errorf("with handle_errors of another status a list gave %d, %s", a.Status, a.Body)
	}
}
