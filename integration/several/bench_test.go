package several

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// BenchmarkCalls has one client call a tool, one call after another: at the server, through Caddy in front of that
// server, and through Caddy in front of two servers. The eras are those of the client and of the server. Compare only the
// times of one run.
//
//	go test -run '^$' -bench '^BenchmarkCalls$' ./integration/several
func BenchmarkCalls(b *testing.B) {
	for _, spoken := range []struct {
		name, client string
		servers      []string
	}{
		{"legacy", scripted.LatestLegacy, legacyRevisions},
		{"modern", scripted.Modern, []string{scripted.Modern}},
		{"modern, legacy", scripted.Modern, legacyRevisions},
		{"legacy, modern", scripted.LatestLegacy, []string{scripted.Modern}},
	} {
		one, first := caddytest.NewMember(b, "one")
		_, second := caddytest.NewMember(b, "two")
		one.SetRevisions(spoken.servers...)
		calls := func(url, tool string) func(*testing.B) {
			return func(b *testing.B) {
				c := fixture.New(b, url, spoken.client, "")
				params := `{"name":"` + tool + `","arguments":{}}`
				if c.Modern() {
					params = c.Params(`"name":"` + tool + `","arguments":{}`)
				}
				call := func() {
					if a := c.Call("tools/call", params); a.Status != http.StatusOK || a.Part("result") == nil {
						b.Fatalf("the call is answered %s", a)
					}
				}
				call() // opens what has to be open
				for b.Loop() {
					call()
				}
			}
		}
		p := caddytest.StartProxy(b, "handle_path /one/* {\nmcp_cache "+first.URL+"\n}\nhandle_path /several/* {\n"+caddytest.ToolkitOf([]caddytest.Member{first, second})+"\n}")
		site := p.URL[:len(p.URL)-len("/mcp")]
		if spoken.client == scripted.Modern == (len(spoken.servers) == 1) {
			b.Run(spoken.name+"/direct", calls(first.URL, "item-0000"))
			b.Run(spoken.name+"/one server", calls(site+"/one/mcp", "item-0000"))
		}
		b.Run(spoken.name+"/several", calls(site+"/several/mcp", "one__item-0000"))
	}
}
