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

// unlistedSite is a way in which rules stand in front of one server, or several. Callers who
// send the header X-Role are under no rule.
type unlistedSite struct {
	name, prefix string
	config       func(url, unlisted string) string
}

// unlistedSites are all ways: the rules deny tools and prompts that are called drop.
func unlistedSites() []unlistedSite {
	const others = "@others not header X-Role admin\n"
	rules := func(prefix string) string {
		return "deny @others tools " + prefix + "drop\ndeny @others prompts " + prefix + "drop\n"
	}
	return []unlistedSite{
		{"one server", "", func(url, unlisted string) string {
			return others + "route {\n" + caddytest.Directive(url, "refresh 1ms", unlisted, rules("")) + "\n}"
		}},
		{"rules of one of several", "one__", func(url, unlisted string) string {
			return others + "route {\nmcp_cache {\n" + unlisted + "\nserver one " + url + " {\nrefresh 1ms\n" + rules("") + "}\n}\n}"
		}},
		{"rules beside several", "one__", func(url, unlisted string) string {
			return others + "route {\nmcp_cache {\n" + unlisted + "\n" + rules("one__") + "server one " + url + " {\nrefresh 1ms\n}\n}\n}"
		}},
		{"rules beside one without a prefix", "", func(url, unlisted string) string {
			return others + "route {\nmcp_cache {\n" + unlisted + "\n" + rules("") + "server one " + url + " {\nprefix off\nrefresh 1ms\n}\n}\n}"
		}},
		{"lists of single callers", "one__", func(url, unlisted string) string {
			return others + "route {\nmcp_cache {\n" + unlisted + "\nadmit all\nserver one " + url + " {\nheaders X-Tenant\nrefresh 1ms\n" + rules("") + "}\n}\n}"
		}},
	}
}

// TestNamesInNoList has a server run tools and prompts that it does not list. A caller who
// may not see all of them can name only those of the list, and new ones once they are listed.
func TestNamesInNoList(t *testing.T) {
	for _, site := range unlistedSites() {
		for _, deny := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, deny %t", site.name, deny), func(t *testing.T) {
				w, _ := ruledServer(t, "one", map[string][]string{scripted.ToolsList: {"keep", "drop"}, scripted.PromptsList: {"keep", "drop"}})
				w.Host.ShareCredentials()
				unlisted := ""
				if !deny {
					unlisted = "unlisted allow"
				}
				w.Proxy = caddytest.StartProxy(t, site.config(w.Host.URL, unlisted))
				for n, revision := range caddytest.Revisions {
					t.Run(revision, func(t *testing.T) { nameWhatIsInNoList(w.On(t), site, revision, deny, n) })
				}
			})
		}
	}
}

func nameWhatIsInNoList(w *caddytest.World, site unlistedSite, revision string, deny bool, round int) {
	t := w.T
	c := fixture.NewWith(t, w.Proxy.URL, revision, "", http.Header{"X-Tenant": {"a"}})
	admin := fixture.NewWith(t, w.Proxy.URL, revision, "", http.Header{"X-Tenant": {"a"}, "X-Role": {"admin"}})
	methods := map[string]string{
		"tools/call": `"name":%q`, "prompts/get": `"name":%q`,
		"completion/complete": `"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":""}`,
	}
	wants := func(c *fixture.Raw, method, name string, may bool) {
		t.Helper()
		w.Host.Forget()
		a := c.Call(method, c.Params(fmt.Sprintf(methods[method], site.prefix+name)))
		reached := len(w.Host.Requests(func(r *fixture.Request) bool { return r.Method == method }))
		if denied := strings.Contains(a.Header.Get("Cache-Status"), "detail=denied"); denied == may || may != (reached == 1) || may != (a.ErrorCode() == 0) {
			t.Errorf("%s %q gave %s: %s; it reached the server %d times", method, name, a, a.Body, reached)
		}
	}
	for _, method := range []string{scripted.ToolsList, scripted.PromptsList} {
		fixture.Await(t, "a list", func() bool { return len(c.List(method).Items(scripted.ItemsKey(method))) == 1 })
	}
	for method := range methods {
		wants(c, method, "keep", true)
		if method == "tools/call" && len(w.Host.Requests(func(r *fixture.Request) bool { return !r.Feed && strings.HasSuffix(r.Method, "/list") })) > 0 {
			t.Error("a call of a tool that is listed had the list asked for")
		}
		wants(c, method, "drop", false)
		for _, name := range []string{"Drop", "drop.", "db.drop", "run_drop"} {
			wants(c, method, name, !deny)
		}
		wants(admin, method, "Drop", true)
	}
	// The server has a new tool, and announces nothing.
	added := fmt.Sprintf("added-%d", round)
	w.SetList(scripted.ToolsList, namedItems(scripted.ToolsList, "keep", "drop", added))
	fixture.Await(t, "a call of a tool that the server has added", func() bool {
		a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q`, site.prefix+added)))
		return a.ErrorCode() == 0 && a.Status == http.StatusOK
	})
	wants(c, "tools/call", "Drop", !deny)
	w.SetList(scripted.ToolsList, namedItems(scripted.ToolsList, "keep", "drop"))
	w.Changed(scripted.Feeds, scripted.ToolsList)
	fixture.Await(t, "the end of the added tool", func() bool { return len(c.List(scripted.ToolsList).Items("tools")) == 1 })
}

// TestProgramRunsNothingUnlisted has a program run the tool pid, which the program does not list.
// A caller under rules cannot call it.
func TestProgramRunsNothingUnlisted(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t)
	for name, site := range map[string]struct{ prefix, config string }{
		"alone":          {"", "mcp_cache {\ndeny tools drop\n" + caddytest.ProgramUpstream(command) + "\n}"},
		"one of several": {"one__", "mcp_cache {\ndeny tools one__drop\nserver one {\n" + caddytest.ProgramUpstream(command) + "\n}\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			p := caddytest.StartProxy(t, site.config)
			c := fixture.New(t, p.URL, scripted.LatestLegacy, "")
			var listed []string
			fixture.Await(t, "the program's tools", func() bool {
				listed = itemNames(t, c.List(scripted.ToolsList), scripted.ToolsList)
				return len(listed) > 0
			})
			if a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q,"arguments":{"text":"a"}`, listed[0]))); a.ErrorCode() != 0 {
				t.Errorf("a call of %s gave %s", listed[0], a)
			}
			if a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q,"arguments":{}`, site.prefix+"pid"))); a.CacheStatus().Detail != "denied" || a.ErrorCode() == 0 {
				t.Errorf("the call of an unlisted tool gave %s: %s", a, a.Body)
			}
		})
	}
}
