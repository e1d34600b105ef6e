package views

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestHiddenIsAnsweredAlike names hidden items, and items that do not exist, to one server, several, and programs.
// Each client gets the same status and the same error from all of them.
func TestHiddenIsAnsweredAlike(t *testing.T) {
	rules := "deny tools *hidden*\n\tdeny prompts *hidden*\n\tdeny resources *hidden*"
	_, one := caddytest.NewMember(t, "one")
	_, other := caddytest.NewMember(t, "two")
	program := caddytest.Member{Name: "one", URL: caddytest.RelayTo(one.URL)}
	for name, site := range map[string]string{
		"one server":       caddytest.Directive(one.URL, rules),
		"a program":        caddytest.Directive(program.URL, rules),
		"several servers":  caddytest.ToolkitOf([]caddytest.Member{one, other}, rules),
		"several programs": caddytest.ToolkitOf([]caddytest.Member{program, other}, rules),
	} {
		t.Run(name, func(t *testing.T) {
			p := caddytest.StartProxy(t, site)
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				c := fixture.New(t, p.URL, revision, "")
				c.List(scripted.ToolsList) // legacy: in a session
				noResource := "-32002"
				if c.Modern() {
					noResource = "-32602"
				}
				for _, named := range []struct{ method, name, params, code, text string }{
					{"tools/call", "one__hidden", `"name":%q,"arguments":{}`, "-32602", `"Unknown tool: one__hidden"`},
					{"prompts/get", "one__hidden", `"name":%q`, "-32602", `"Unknown prompt: one__hidden"`},
					{"resources/read", "test://hidden", `"uri":%q`, noResource, `"Resource not found"`},
				} {
					a := c.Post(fixture.Message("7", named.method, c.Params(fmt.Sprintf(named.params, named.name))), mirrored(c, named.method, named.name))
					if code, text := string(a.Part("error", "code")), string(a.Part("error", "message")); a.Status != refusedStatus(c) || code != named.code || text != named.text {
						t.Errorf("%s of a hidden item gave %s", named.method, a)
					}
					if !strings.HasSuffix(a.Header.Get("Cache-Status"), "detail=denied") {
						t.Errorf("%s: Cache-Status is %q", named.method, a.Header.Get("Cache-Status"))
					}
				}
			})
		})
	}
}

// refusedStatus is the HTTP status of an error about what a request of a client names.
func refusedStatus(c *fixture.Raw) int {
	if c.Modern() {
		return http.StatusBadRequest
	}
	return http.StatusOK
}
