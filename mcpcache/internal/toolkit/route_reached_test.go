package toolkit

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A client is told which server has not been reached yet, instead of that something does not exist. Once the server
// answers, the same request is answered.
func TestServersThatWereNeverReached(t *testing.T) {
	for name, tt := range map[string]struct {
		bare   bool // the server has no prefix
		known  bool // of the servers that are reached, one has no prefix
		method string
		params string
		want   bool // that the server is said not to have been reached
	}{
		"a tool with its prefix":  {method: "tools/call", params: `"name":"two__tools_a"`, want: true},
		"a prompt without prefix": {bare: true, method: "prompts/get", params: `"name":"prompts_c"`, want: true},
		"a tool of either":        {bare: true, known: true, method: "tools/call", params: `"name":"tools_c"`, want: true},
		"a resource":              {method: "resources/read", params: `"uri":"two://resources_a"`, want: true},
		"a template": {
			method: "completion/complete", params: `"ref":{"type":"ref/resource","uri":"two://resource_templates_a"}`, want: true,
		},
		"a tool that cannot be its":  {method: "tools/call", params: `"name":"tools_a"`},
		"a tool of the other server": {bare: true, method: "tools/call", params: `"name":"one__"`, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			one := serves("one").with(func(m *member) { m.Items[revision.Tools] = nil })
			two := serves("two").with(func(m *member) { m.OnAll(clienttest.Refuse) })
			two.Items[revision.Tools] = append(two.Items[revision.Tools], "tools_c")
			two.Items[revision.Prompts] = append(two.Items[revision.Prompts], "prompts_c")
			members := []*member{one, two}
			if tt.bare {
				two.of.Prefix = ""
			}
			if tt.known {
				three := serves("three").with(func(m *member) { m.of.Prefix = ""; m.Items[revision.Tools] = nil })
				members = append(members, three)
			}
			run(t, func(w *world) {
				w.eachEra(func(c *caller) {
					a := c.ask(tt.method, tt.params)
					if tt.want {
						a.want(w, tt.params, http.StatusServiceUnavailable, jsonrpc.InternalError)
					}
					if said := a.says() == `the MCP server "two" has not been reached yet`; said != tt.want {
						w.Errorf("a %s client is told %q", c.at.Era(), a.says())
					}
				})
				two.OnAll(nil)
				w.after(time.Hour)
				if tt.want && !strings.Contains(tt.params, "one__") {
					w.eachEra(func(c *caller) { c.ask(tt.method, tt.params).wantOf(w, "two") })
				}
			}, members...)
		})
	}
}

// The first requests wait until their server has been asked what it has, as long as the option gate says. They do not
// wait for other servers, unless what they name may be of any of them.
func TestFirstRequestsWaitForTheirServer(t *testing.T) {
	for params, method := range map[string]string{
		`"name":"one__tools_a"`: "tools/call", `"name":"tools_a"`: "tools/call", `"uri":"one://resources_a"`: "resources/read",
	} {
		for took, want := range map[time.Duration]bool{time.Second: true, 30 * time.Second: false} {
			for _, at := range eras {
				one := serves("one", at).with(func(m *member) {
					late := func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
						if m.Count(c.Method) == 1 {
							time.Sleep(took)
						}
						return m.Answer(w, r, c)
					}
					m.On(map[revision.Revision]string{legacy: "initialize", modern: "server/discover"}[at], late)
					m.of.Prefix = map[bool]string{true: "one__"}[strings.Contains(params, "one__")]
				})
				two := serves("two").with(func(m *member) { m.On("server/discover", clienttest.Hang); m.On("initialize", clienttest.Hang) })
				runWith(t, setup{waits: true}, func(w *world) {
					c, began := w.calls(modern), time.Now()
					a, wait := c.ask(method, params), min(took, w.Settings.Gate)
					if method == "resources/read" { // it may be of any server
						wait = w.Settings.Gate
					}
					if waited := time.Since(began); waited != wait {
						w.Errorf("%s has waited for %s, want %s", params, waited, wait)
					}
					if want {
						a.wantOf(w, "one")
					} else {
						a.want(w, params, http.StatusServiceUnavailable, jsonrpc.InternalError)
					}
				}, one, two)
			}
		}
	}
}

// Servers that may know callers are asked as one only for what may be theirs: a name with a prefix is of one server alone.
func TestNamesAreShownToTheirServerAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		method, params string
		asked          []string
		server         string // that answers; "" for none
	}{
		"a tool":              {"tools/call", `"name":"two__tools_a"`, []string{"two"}, "two"},
		"a prompt":            {"prompts/get", `"name":"one__prompts_a"`, []string{"one"}, "one"},
		"a resource":          {"resources/read", `"uri":"two://resources_a"`, []string{"one", "two"}, "two"},
		"a tool of neither":   {"tools/call", `"name":"tools_a"`, []string{"one", "two"}, ""},
		"a completed prompt":  {"completion/complete", `"ref":{"type":"ref/prompt","name":"one__prompts_a"}`, []string{"one"}, "one"},
		"a template of a URI": {"resources/read", `"uri":"two://resource_templates_a"`, []string{"one", "two"}, "two"},
		"a URI like a tool":   {"resources/read", `"uri":"two__tools_a"`, []string{"one", "two"}, ""},
	} {
		for _, at := range eras {
			members := []*member{serves("one", at).personal(), serves("two", at).personal(), serves("three", at)}
			run(t, func(w *world) {
				a := w.calls(at, "Authorization", "Bearer a").ask(tt.method, tt.params)
				if tt.server != "" {
					a.wantOf(w, tt.server)
				}
				w.after(time.Second)
				var asked []string
				for _, m := range members {
					m.Mu.Lock()
					known := slices.ContainsFunc(m.Headers, func(h http.Header) bool { return h.Get("Authorization") == "Bearer a" })
					m.Mu.Unlock()
					if known {
						asked = append(asked, m.of.Name)
					}
				}
				if !slices.Equal(asked, tt.asked) || (a.code() == 0) != (tt.server != "") {
					w.Errorf("for %s of a %s client, %q are asked as the caller, want %q: %s", name, at.Era(), asked, tt.asked, a)
				}
			}, members...)
		}
	}
}
