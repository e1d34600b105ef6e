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

// TestNULHidesNothing sends requests that name something hidden to a server that is written in C:
// there, a name ends at a NUL. No such request reaches a server.
func TestNULHidesNothing(t *testing.T) {
	deny := []string{"deny tools drop", "deny prompts drop", "deny resources docs://secret", "deny resource_templates docs://{x}"}
	for name, start := range map[string]func(w *caddytest.World, m caddytest.Member) *caddytest.Proxy{
		"one server": func(w *caddytest.World, _ caddytest.Member) *caddytest.Proxy {
			return caddytest.StartProxy(t, caddytest.Directive(w.Host.URL, deny...))
		},
		"rules of one": func(_ *caddytest.World, m caddytest.Member) *caddytest.Proxy {
			m.Options = append(m.Options, deny...)
			return caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}))
		},
		"rules of them all": func(_ *caddytest.World, m caddytest.Member) *caddytest.Proxy {
			return caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}, deny...))
		},
		"a program": func(*caddytest.World, caddytest.Member) *caddytest.Proxy {
			command, _ := caddytest.MisbehavingProgram(t)
			return caddytest.StartProxy(t, "mcp_cache {\nserver one {\nprefix off\n"+caddytest.ProgramUpstream(command)+"\n"+strings.Join(deny, "\n")+"\n}\n}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, m := ruledServer(t, "one", map[string][]string{
				scripted.ToolsList: {"get", "drop"}, scripted.PromptsList: {"get", "drop"}, scripted.ResourcesList: {"docs://public", "docs://secret"}, scripted.TemplatesList: {"docs://{x}", "docs://{y}"},
			}, "prefix off")
			p := start(w, m)
			for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
				c := fixture.New(t, p.URL, revision, "")
				c.AwaitList(scripted.ToolsList, "the list", func(a *fixture.Answer) bool { return len(a.Items("tools")) == 1 })
				w.Host.Forget()
				long := strings.Repeat("x", 300)
				for method, params := range map[string][]string{
					"tools/call": {
						`"name":"get","name\u0000":"drop"`, `"name\u0000":"drop","name":"get"`, `"name":"get","NAME\u0000` + long + `":"drop"`,
						`"name":"get","arguments":{},"name\u0000\u0000":"drop"`, `"name":"drop\u0000"`, `"name":"drop\u0000get"`,
					},
					"prompts/get":    {`"name":"get","name\u0000":"drop"`, `"name":"drop\u0000"`},
					"resources/read": {`"uri":"docs://public","uri\u0000":"docs://secret"`, `"uri":"docs://secret\u0000"`, `"uri":"docs://secret\u0000/../public"`},
					"completion/complete": {
						`"argument":{"name":"a","value":"v"},"ref":{"type":"ref/prompt","name":"get","name\u0000":"drop"}`,
						`"argument":{"name":"a","value":"v"},"ref":{"type":"ref/prompt","name":"get"},"ref\u0000":{"type":"ref/prompt","name":"drop"}`,
						`"argument":{"name":"a","value":"v"},"ref":{"type":"ref/resource","uri":"docs://{y}","uri\u0000":"docs://{x}"}`,
					},
				} {
					for _, members := range params {
						wantRefused(t, c, method, fixture.Message("7", method, c.Params(members)))
					}
				}
				get, drop := c.Params(`"name":"get"`), c.Params(`"name":"drop"`)
				wantRefused(t, c, "tools/call", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":%s,"params\u0000":%s}`, get, drop))
				wantRefused(t, c, "ping", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"ping","method\u0000":"tools/call","params":%s}`, drop))
				if n := len(clientsOf(w)); n != 0 {
					t.Errorf("%s: %d requests reached the server", revision, n)
				}
			}
		})
	}
}

// wantRefused fails unless a message is refused as one that is not certain.
func wantRefused(t *testing.T, c *fixture.Raw, method, body string) {
	t.Helper()
	more := http.Header{}
	if c.Modern() {
		more.Set("Mcp-Method", method)
	}
	if a := c.Post(body, more); a.Part("result") != nil || a.ErrorCode() == 0 || !strings.Contains(string(a.Body), "NUL") {
		t.Errorf("%s: %s gave %s: %s", c.Revision, body, a, a.Body)
	}
}
