package several

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestLongURIs: how long a URI may be is bounded where something is looked up by it, so that no
// request costs much. In front of one server without rules it passes as it is.
func TestLongURIs(t *testing.T) {
	const longest = 64 << 10
	const begin = "docs://one/"
	fits, long := begin+strings.Repeat("x", longest-len(begin)), begin+strings.Repeat("x", longest-len(begin)+1)
	one, first := ruledServer(t, "one", map[string][]string{scripted.TemplatesList: {"docs://one/{x}"}})
	_, second := ruledServer(t, "two", map[string][]string{scripted.TemplatesList: {"docs://two/{x}"}})
	for name, tt := range map[string]struct {
		config  string
		refusal string // "": it is passed on
		lists   int
	}{
		"one server":             {caddytest.Directive(first.URL), "", 1},
		"one server, rules":      {caddytest.Directive(first.URL, "deny resources docs://one/secret"), "Resource not found", 1},
		"several servers":        {caddytest.ToolkitOf([]caddytest.Member{first, second}), "the URI has 65537 bytes; its server is found out for URIs of at most 65536", 2},
		"several servers, rules": {caddytest.ToolkitOf([]caddytest.Member{first, second}, "deny resources docs://one/secret"), "at most 65536", 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := caddytest.StartProxy(t, tt.config)
			c := fixture.New(t, p.URL, scripted.LatestLegacy, "") // a modern one says it in a header, which Caddy bounds
			caddytest.HasListed(t, c, scripted.TemplatesList, tt.lists)
			read := func(uri string) *fixture.Answer {
				return c.Call("resources/read", c.Params(fmt.Sprintf(`"uri":%q`, uri)))
			}
			if a := read(fits); a.Status != http.StatusOK || a.ErrorCode() != 0 {
				t.Errorf("a URI that is just short enough gave %s: %.300s", a, a.Body)
			}
			one.Host.Forget()
			a := read(long)
			asked := len(clientsOf(one))
			switch {
			case tt.refusal == "" && (a.Status != http.StatusOK || a.ErrorCode() != 0 || asked != 1):
				t.Errorf("a long URI gave %s: %.300s; the server was asked %d times", a, a.Body, asked)
			case tt.refusal != "" && (a.ErrorCode() == 0 || !strings.Contains(string(a.Body), tt.refusal) || asked != 0):
				t.Errorf("a long URI gave %s: %.300s; the server was asked %d times", a, a.Body, asked)
			}
		})
	}
}
