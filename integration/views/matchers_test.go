package views

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestFailingMatcher has an expression that fails for every caller without groups, as
// users write it: who it fails for gets nothing of what it allows and is kept from
// what it denies, and the log says once that it fails.
func TestFailingMatcher(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetList(scripted.ToolsList, scripted.Page{`{"name":"public"}`, `{"name":"secret"}`, `{"name":"guests"}`})
	w.Host.Start()
	w.Proxy = caddytest.StartProxy(t, `map {header.X-User} {groups} {
	ada "users,admin"
	bob users
}
@admins expression `+"`'admin' in {groups}.split(',')`"+`
route {
`+caddytest.Directive(w.Host.URL, "allow tools public guests", "allow @admins tools secret", "deny @admins tools guests")+"\n}")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		for user, want := range map[string][]string{"ada": {"public", "secret"}, "bob": {"public", "guests"}, "eve": {"public"}} {
			c := w.Client(revision)
			c.Header.Set("X-User", user)
			a := c.Settle(scripted.ToolsList)
			if got, want := strings.Join(a.Items("tools"), ","), `{"name":"`+strings.Join(want, `"},{"name":"`)+`"}`; got != want {
				t.Errorf("%s is shown %v, want %v", user, got, want)
			}
			for _, tool := range []string{"public", "secret", "guests"} {
				a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q`, tool)))
				denied := a.Header.Get("Cache-Status") == "mcp_cache; detail=denied"
				if allowed := strings.Contains(fmt.Sprint(want), tool); denied == allowed {
					t.Errorf("%s calls %s: %s", user, tool, a)
				}
			}
		}
	})
	const fails, works = "matcher of rules fails", "matcher of rules works again"
	fixture.Await(t, "the log of the last change", func() bool { return strings.Contains(w.Proxy.Log(), fails) })
	// Requests came one by one, in an order of chance: no state was told of twice.
	log := w.Proxy.Log()
	if began, ended := strings.Count(log, fails), strings.Count(log, works); began < 1 || began-ended < 0 || began-ended > 1 || began > 2*len(caddytest.Revisions)+1 {
		t.Errorf("the log says %d times that a matcher fails, and %d times that it works again", began, ended)
	}
}
