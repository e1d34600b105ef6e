package views

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// roleRules are those of three roles, which a header and a placeholder name.
var roleRules = []string{
	"allow tools get_*", "allow @support tools ticket_*", "allow @admin tools *", "deny tools *_drop", "deny @support prompts item-0001",
}

// roleSite is a site with those rules, and others.
func roleSite(url string, options ...string) string {
	return "map {header.X-Key} {group} {\n\tkey-of-support support\n\tdefault none\n}\n" +
		"@support vars {group} support\n@admin {\n\theader X-Role admin\n\tnot header X-Key *\n}\n" +
		"route {\n" + caddytest.Directive(url, slices.Concat(roleRules, []string{"scope public"}, options)...) + "\n}"
}

// toolsNamed are tools of those names.
func toolsNamed(names ...string) (page scripted.Page) {
	for _, name := range names {
		page = append(page, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	return page
}

// newRoles starts a scripted upstream with tools of several roles, behind rules.
func newRoles(t *testing.T, options ...string) *caddytest.World {
	t.Helper()
	w := caddytest.NewUpstream(t)
	w.SetList(scripted.ToolsList, toolsNamed("get_a", "ticket_new", "db_drop", "admin_it"))
	w.Host.Start()
	w.Proxy = caddytest.StartProxy(t, roleSite(w.Host.URL, options...))
	caddytest.AwaitReady(t, "mcp_cache")
	return w
}

// roles are callers, by what they send, by what an operator says of them, and by the
// tools that they are shown.
var roles = map[string]struct {
	header http.Header
	as     []string
	shown  string
}{
	"nobody":  {nil, []string{"header.X-Other=a"}, "get_a"},
	"support": {http.Header{"X-Key": {"key-of-support"}}, []string{"{group}=support"}, "get_a ticket_new"},
	"admin":   {http.Header{"X-Role": {"admin"}}, []string{"header.x-role=admin"}, "get_a ticket_new admin_it"},
	"both":    {http.Header{"X-Role": {"admin"}, "X-Key": {"key-of-support"}}, []string{"header.X-Role=admin", "{group}=support", "header.X-Key=x"}, "get_a ticket_new"},
}

// askedAs is what the admin API says that a caller is shown of a kind.
func askedAs(t *testing.T, kind string, query url.Values) (items []struct {
	Name string
	Why  *struct {
		Allowed bool
		Rule    *struct {
			Number       int
			Effect, Kind string
			Items        []string
			Match        json.RawMessage
		}
		Reason string
	}
},
) {
	t.Helper()
	caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache/"+kind+"?"+query.Encode(), &items)
	return items
}

// TestListAsACaller lists as callers that there are not: the lists are those of the
// callers that there are.
func TestListAsACaller(t *testing.T) {
	w := newRoles(t)
	for name, role := range roles {
		c := w.Client(scripted.Modern)
		maps.Copy(c.Header, role.header)
		var real, said []string
		for _, item := range c.Settle(scripted.ToolsList).Items("tools") {
			real = append(real, caddytest.NameIn(item))
		}
		for _, item := range askedAs(t, "tools", url.Values{"as": role.as}) {
			said = append(said, item.Name)
			if item.Why != nil {
				t.Errorf("%s: nobody asked why of %+v", name, item)
			}
		}
		if strings.Join(real, " ") != role.shown || !slices.Equal(real, said) {
			t.Errorf("%s is shown %q, and said to be shown %q; want %s", name, real, said, role.shown)
		}
	}
	for _, item := range askedAs(t, "tools", url.Values{"why": {"1"}, "as": {"{group}=support"}}) {
		said := fmt.Sprint(item.Why.Allowed)
		if r := item.Why.Rule; r != nil {
			said += fmt.Sprintf(" %d %s %s %s %s", r.Number, r.Effect, r.Kind, r.Items, r.Match)
		}
		if want := map[string]string{
			"get_a": "true 0 allow tools [get_*] ", "ticket_new": `true 1 allow tools [ticket_*] [{"vars":{"{group}":["support"]}}]`,
			"db_drop": "false 3 deny tools [*_drop] ", "admin_it": "false",
		}[item.Name]; said != want || (item.Why.Rule == nil) != (item.Why.Reason != "") {
			t.Errorf("%s is %s %s, want %s", item.Name, said, item.Why.Reason, want)
		}
	}
	for kind, want := range map[string]int{"prompts": 2, "resources": 3, "resource_templates": 3} {
		if items := askedAs(t, kind, url.Values{"as": {"{group}=support"}}); len(items) != want {
			t.Errorf("of %s support is said to be shown %+v", kind, items)
		}
	}
	if all := askedAs(t, "tools", nil); len(all) != 4 {
		t.Errorf("without a caller there are %+v", all)
	}
	for query, says := range map[string]string{
		"as=team": "KEY is header.NAME, vars.NAME, host, remote_ip, or a placeholder", "as=remote_ip%3Dx": "not an IP address",
		"why=maybe": `why: \"maybe\" is not one of 1, 0`, "as=header.X-A%3Da&like=%5B": "is not a pattern", "as=%zz": "reading the query",
	} {
		if status, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache/tools?"+query, nil); status != http.StatusBadRequest || !strings.Contains(string(body), says) {
			t.Errorf("%s gave %d, %s", query, status, body)
		}
	}
}

// TestListAsACallerFromAShell does the same with the command.
func TestListAsACallerFromAShell(t *testing.T) {
	newRoles(t)
	table, _ := caddytest.Command(t, 0, "list", "tools", "--as", "header.X-Role=admin", "--as", "{group}=support")
	if caddytest.Fields(table, "ticket_new") == nil || caddytest.Fields(table, "admin_it") == nil || caddytest.Fields(table, "db_drop") != nil {
		t.Errorf("an admin is shown\n%s", table)
	}
	table, _ = caddytest.Command(t, 0, "list", "tools", "--as", "{group}=support", "--why")
	for _, want := range []string{
		"get_a allowed 0: allow tools get_* everybody", `ticket_new allowed 1: allow tools ticket_* [{"vars":{"{group}":["support"]}}]`,
		"db_drop hidden 3: deny tools *_drop everybody", "admin_it hidden no rule that is about this caller allows it",
	} {
		name, _, _ := strings.Cut(want, " ")
		if got := strings.Join(caddytest.Fields(table, name), " "); got != want {
			t.Errorf("the table says %s, want %s", got, want)
		}
	}
	out, _ := caddytest.Command(t, 0, "list", "tools", "--why", "--json", "--like", "db_*")
	var items []struct {
		Why struct{ Rule struct{ Number int } }
	}
	if err := json.Unmarshal([]byte(out), &items); err != nil || len(items) != 1 || items[0].Why.Rule.Number != 3 {
		t.Errorf("as JSON: %s", out)
	}
	if text, _ := caddytest.Command(t, 0, "list", "tools", "--as", "host=a", "--like", "x*"); text != "Such a caller is shown nothing of tools.\n" {
		t.Errorf("of nothing: %s", text)
	}
	_, complaint := caddytest.Command(t, 1, "list", "tools", "--as", "http.auth.user.id=ada")
	caddytest.WantOneLine(t, complaint, "as: no rule asks for http.auth.user.id; the placeholders that rules ask for: group")
	_, complaint = caddytest.Command(t, 1, "list", "tools", "--as", "support")
	caddytest.WantOneLine(t, complaint, `as: "support": it has to be KEY=VALUE; KEY is header.NAME, vars.NAME, host, remote_ip, or a placeholder such as {groups} or http.auth.user.id`)
}

// viewStatus is what operators' scripts read of a handler's rules.
type viewStatus struct {
	Rules []struct {
		Number   int
		Unused   []string
		Failures int
		Failing  bool
	}
	Warnings []string
	Views    []struct {
		Key   string
		Rules []int
		Lists []struct {
			Kind, Revision     string
			Items, Bytes, Hits int
		}
	}
}

func readViews(t *testing.T) (s viewStatus) {
	t.Helper()
	status, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil)
	if err := json.Unmarshal(body, &s); err != nil || status != http.StatusOK {
		t.Fatalf("status is %d, %s", status, body)
	}
	caddytest.WantSchema(t, slices.Concat([]byte("["), body, []byte("]")))
	return s
}

// TestViewsInTheStatus looks at the views in use, with their hits, at the metrics and
// at what is denied.
func TestViewsInTheStatus(t *testing.T) {
	w := newRoles(t)
	if s := readViews(t); len(s.Views) != 0 || len(s.Rules) != 5 {
		t.Errorf("before anybody asks, the status has %+v", s)
	}
	support, nobody := w.Client(scripted.Modern), w.Client(scripted.Modern)
	support.Header.Set("X-Key", "key-of-support")
	hits := make(map[string]int)
	for c, key := range map[*fixture.Raw]string{support: "[0 1 3 4]", nobody: "[0 3]"} {
		for range 20 {
			if a := c.List(scripted.ToolsList); a.CacheStatus().Hit {
				hits[key]++
			}
		}
	}
	s := readViews(t)
	for _, v := range s.Views {
		key := fmt.Sprint(v.Rules)
		items := map[string]int{"[0 1 3 4]": 2, "[0 3]": 1}[key]
		if len(v.Lists) != 1 || v.Lists[0].Kind != "tools" || v.Lists[0].Items != items || v.Lists[0].Hits < hits[key] || hits[key] < 10 || v.Lists[0].Bytes == 0 {
			t.Errorf("a view is %+v, want %d items and %d hits", v, items, hits[key])
		}
	}
	if len(s.Views) != 2 {
		t.Errorf("views are %+v", s.Views)
	}
	if table, _ := caddytest.Command(t, 0, "status"); !strings.Contains(table, "  0,1,3,4  tools  2026-07-28  2 ") {
		t.Errorf("status is\n%s", table)
	}
	if n := caddytest.Metric(t, `views{handler="mcp_cache"}`); n != 2 {
		t.Errorf("%v views are counted", n)
	}
	if n := caddytest.Metric(t, `view_bytes{handler="mcp_cache"}`); n <= 0 {
		t.Errorf("views have %v bytes", n)
	}
	before := caddytest.OutcomeCounts(t)["denied"]
	nobody.Call("tools/call", nobody.Params(`"name":"db_drop"`))
	fixture.Await(t, "the refusal to be counted", func() bool { return caddytest.OutcomeCounts(t)["denied"] == before+1 })
}

// logged returns how many lines of the log have all of those texts.
func logged(p *caddytest.Proxy, texts ...string) (n int) {
	for line := range strings.Lines(p.Log()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n
}

// TestWarningsOfRules has rules that match nothing, until they do.
func TestWarningsOfRules(t *testing.T) {
	const idle, open = "patterns of a rule match nothing of the lists", "tools are restricted, and no rule is about"
	w := newRoles(t, "deny tools sercet_* hint:read_only", "deny resources test://item-*")
	s := readViews(t)
	if got := s.Rules[5].Unused; !slices.Equal(got, []string{"sercet_*", "hint:read_only"}) || s.Rules[6].Unused != nil {
		t.Errorf("unused are %q", got)
	}
	if want := []string{"rule 5 (deny tools sercet_* hint:read_only) matches nothing of the lists with sercet_* hint:read_only"}; !slices.Equal(s.Warnings, want) {
		t.Errorf("warnings are %q, want %q", s.Warnings, want)
	}
	if table, _ := caddytest.Command(t, 0, "status"); !strings.Contains(table, "\nWarning: rule 5 (") {
		t.Errorf("status is\n%s", table)
	}
	if logged(w.Proxy, idle, `"rule":5`) != 1 || logged(w.Proxy, open) != 0 {
		t.Errorf("the log is\n%s", w.Proxy.Log())
	}
	w.SetList(scripted.ToolsList, append(toolsNamed("get_a", "ticket_new", "db_drop", "sercet_b"), `{"name":"x","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}`))
	w.Changed(scripted.Feeds, scripted.ToolsList)
	fixture.Await(t, "the rule to match", func() bool { return readViews(t).Rules[5].Unused == nil })
	caddytest.RefreshNow(t, "tools")
	if n := logged(w.Proxy, idle, `"rule":5`); n != 1 {
		t.Errorf("%d lines say that the rule matches nothing, want 1", n)
	}
	if logged(w.Proxy, "rule matches something of the lists with all its patterns", `"rule":5`) != 1 {
		t.Error("nothing says that the rule matches something")
	}
	w.Proxy.Reload(caddytest.Directive(w.Host.URL, "allow tools get_*"))
	caddytest.AwaitReady(t, "mcp_cache")
	if n := logged(w.Proxy, open, `"open":["prompts","resources","resource_templates"]`, `"warn"`); n != 1 {
		t.Errorf("%d lines say what is open, want 1", n)
	}
	if got := readViews(t).Warnings; len(got) != 1 || !strings.HasPrefix(got[0], open+" prompts, resources, resource_templates: ") {
		t.Errorf("warnings are %q", got)
	}
}

// TestFailingMatchersForOperators has a matcher fail for callers without groups: that is counted,
// in the status, and logged once.
func TestFailingMatchersForOperators(t *testing.T) {
	const fails, works = "matcher of rules fails", "matcher of rules works again"
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	w.Proxy = caddytest.StartProxy(t, "map {header.X-Groups} {groups} {\n\t~(.+) ${1}\n}\n@a expression `{groups}.split(\",\").exists(g, g == \"a\")`\n"+
		"route {\n"+caddytest.Directive(w.Host.URL, "allow @a tools *", "deny @a prompts *", "scope public")+"\n}")
	caddytest.AwaitReady(t, "mcp_cache")
	c := w.Client(scripted.Modern)
	for range 3 {
		if items := c.List(scripted.ToolsList).Items("tools"); len(items) != 0 {
			t.Errorf("whose matcher fails is shown %s", items)
		}
	}
	about := func(s viewStatus) (n int) {
		return strings.Count(strings.Join(s.Warnings, "\n"), "the matcher of rule")
	}
	counted := caddytest.Metric(t, `rule_errors_total{handler="mcp_cache"}`)
	s := readViews(t)
	if counted < 3 || s.Rules[0].Failures != int(counted) || !s.Rules[0].Failing || s.Rules[1].Failures != int(counted) || about(s) != 2 {
		t.Errorf("after %v failures the status has %+v, %q", counted, s.Rules, s.Warnings)
	}
	if n := logged(w.Proxy, fails); n != 1 {
		t.Errorf("%d lines say that a matcher fails, want 1", n)
	}
	items := askedAs(t, "tools", url.Values{"why": {"1"}})
	if len(items) != 3 || items[0].Why.Allowed || !strings.Contains(items[0].Why.Reason, "the matcher of rule 0 fails for this caller") {
		t.Errorf("why: %+v", items)
	}
	items = askedAs(t, "prompts", url.Values{"why": {"1"}})
	if items[0].Why.Allowed || items[0].Why.Rule.Number != 1 || !strings.Contains(items[0].Why.Reason, "its matcher fails for this caller") {
		t.Errorf("why: %+v", items)
	}
	if n := len(askedAs(t, "tools", url.Values{"as": {"{groups}=x,a"}})); n != 3 {
		t.Errorf("a caller with a group is said to be shown %d", n)
	}
	c.Header.Set("X-Groups", "b,a")
	c.Settle(scripted.ToolsList)
	if s = readViews(t); s.Rules[0].Failing || s.Rules[0].Failures != int(counted) || about(s) != 0 || logged(w.Proxy, works) != 1 {
		t.Errorf("when it works again the status has %+v, %q", s.Rules, s.Warnings)
	}
	if n := caddytest.Metric(t, `rule_errors_total{handler="mcp_cache"}`); n != counted {
		t.Errorf("questions of an operator are counted: %v, were %v", n, counted)
	}
}
