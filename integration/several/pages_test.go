package several

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestPagesReadWhatSeveralServersAnswer: a page in a browser may read every answer of an endpoint of several servers,
// and the id of its session, also if the site itself says which pages may read, or which header.
func TestPagesReadWhatSeveralServersAnswer(t *testing.T) {
	const app = "https://app.example"
	_, one := caddytest.NewMember(t, "one")
	_, other := caddytest.NewMember(t, "two")
	several := caddytest.ToolkitOf([]caddytest.Member{one, other}, "origins "+app)
	for name, c := range map[string]struct{ before, allows string }{
		"the cache says who":   {"", app},
		"the site says who":    {"header Access-Control-Allow-Origin *\n", "*"},
		"and says it late":     {"header >Access-Control-Allow-Origin *\n", "*"},
		"the site has its own": {"header Access-Control-Allow-Origin *\nheader Access-Control-Expose-Headers X-Own\n", "*"},
	} {
		t.Run(name, func(t *testing.T) {
			p := caddytest.StartProxy(t, "route {\n"+c.before+several+"\n}")
			check := func(what string, h http.Header) {
				t.Helper()
				exposed := strings.Split(strings.Join(h["Access-Control-Expose-Headers"], ", "), ", ")
				if h.Get("Access-Control-Allow-Origin") != c.allows || !slices.Contains(exposed, "Mcp-Session-Id") || slices.Contains(exposed, "X-Own") != strings.Contains(c.before, "X-Own") {
					t.Errorf("%s: a page gets %v", what, h)
				}
			}
			for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
				client := fixture.New(t, p.URL, revision, "")
				client.Header.Set("Origin", app)
				if !client.Modern() {
					a := client.Post(caddytest.ProgramHello, nil)
					if check("initialize", a.Header); a.Header.Get("Mcp-Session-Id") == "" {
						t.Errorf("no session was opened: %s", a)
					}
				}
				check("a list", client.Settle(scripted.ToolsList).Header)
				check("a call", client.Call("tools/call", client.Params(`"name":"one__item-0000","arguments":{}`)).Header)
				check("an error", client.Call("tools/call", client.Params(`"name":"none","arguments":{}`)).Header)
				check("a notification", client.Notify("notifications/cancelled", client.Params(`"requestId":99`)).Header)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client := fixture.New(t, p.URL, scripted.LatestLegacy, "")
			client.Header.Set("Origin", app)
			client.List(scripted.ToolsList)
			stream, err := client.Open(ctx, http.MethodGet, http.NoBody, http.Header{"Accept": {"text/event-stream"}})
			if err != nil {
				t.Fatal(err)
			}
			check("a stream", stream.Header)
			stream.Body.Close()
		})
	}
}
