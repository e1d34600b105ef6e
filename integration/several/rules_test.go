package several

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// namedItems returns items of those names, or URIs.
func namedItems(method string, names ...string) (page scripted.Page) {
	key := uriKey[method]
	for _, name := range names {
		if key == "" {
			page = append(page, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
			continue
		}
		page = append(page, fmt.Sprintf(`{%q:%q,"name":"n"}`, key, name))
	}
	return page
}

// ruledServer starts a server with those lists, public for an hour, that answers every request.
func ruledServer(t testing.TB, name string, lists map[string][]string, options ...string) (*caddytest.World, caddytest.Member) {
	t.Helper()
	w, m := caddytest.NewMember(t, name, options...)
	for _, method := range scripted.ListMethods() {
		w.SetList(method, namedItems(method, lists[method]...))
	}
	for _, method := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete"} {
		w.SetScript(method, func(x *scripted.Exchange) {
			x.Result(`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","content":[],"messages":[],"contents":[],"completion":{"values":[]}}`)
		})
	}
	return w, m
}

// uriKey is what items are told apart by that are not by their names.
var uriKey = map[string]string{scripted.ResourcesList: "uri", scripted.TemplatesList: "uriTemplate"}

// itemNames returns the names, or URIs, of a list.
func itemNames(t *testing.T, a *fixture.Answer, method string) (names []string) {
	t.Helper()
	for _, item := range a.Items(scripted.ItemsKey(method)) {
		var members map[string]any
		if err := json.Unmarshal([]byte(item), &members); err != nil {
			t.Fatal(err)
		}
		name, _ := members[cmp.Or(uriKey[method], "name")].(string)
		names = append(names, name)
	}
	return names
}

const support = "@support header Remote-Groups support\n@failing expression `{http.request.header.X-None}.foo == 1`\n"

// TestToolkitRules: in a server's block rules speak of that one's own names, beside the servers
// of those that clients see. What they hide from a caller is in no list, and naming it is like
// naming what does not exist: its server does not hear of it.
func TestToolkitRules(t *testing.T) {
	one, first := ruledServer(t, "one", map[string][]string{
		scripted.ToolsList: {"get_a", "issue_a", "issue_delete", "drop"}, scripted.PromptsList: {"help", "reply"},
		scripted.ResourcesList: {"docs://public/a", "docs://secret/a"}, scripted.TemplatesList: {"docs://public/{x}", "docs://all/{x}"},
	}, "allow tools get_* drop", "allow @support tools issue_*", "deny tools *_delete", "deny prompts reply", "deny resources docs://secret/*")
	two, second := ruledServer(t, "two", map[string][]string{
		scripted.ToolsList: {"get_a", "get_secret"}, scripted.PromptsList: {"reply"}, scripted.ResourcesList: {"two://a"}, scripted.TemplatesList: {"two://t/{x}"},
	}, "prefix off")
	p := caddytest.StartProxy(t, support+caddytest.ToolkitOf([]caddytest.Member{first, second},
		"deny tools one__drop", "deny @support tools get_secret", "deny @support prompts reply", "deny @support resources two://*", "deny resource_templates docs://all/*", "deny @support resource_templates two://*"))
	for _, name := range []string{"one", "two"} {
		caddytest.AwaitReady(t, "mcp_cache/"+name)
	}
	all := map[string][]string{
		scripted.ToolsList: {"one__get_a", "one__issue_a", "one__issue_delete", "one__drop", "get_a", "get_secret"}, scripted.PromptsList: {"one__help", "one__reply", "reply"},
		scripted.ResourcesList: {"docs://public/a", "docs://secret/a", "two://a"}, scripted.TemplatesList: {"docs://public/{x}", "docs://all/{x}", "two://t/{x}"},
	}
	for group, shown := range map[string]map[string][]string{
		"": {
			scripted.ToolsList: {"one__get_a", "get_a", "get_secret"}, scripted.PromptsList: {"one__help", "reply"},
			scripted.ResourcesList: {"docs://public/a", "two://a"}, scripted.TemplatesList: {"docs://public/{x}", "two://t/{x}"},
		},
		"support": {
			scripted.ToolsList: {"one__get_a", "one__issue_a", "get_a"}, scripted.PromptsList: {"one__help"},
			scripted.ResourcesList: {"docs://public/a"}, scripted.TemplatesList: {"docs://public/{x}"},
		},
	} {
		for _, revision := range append(legacyRevisions, scripted.Modern) {
			t.Run(group+" "+revision, func(t *testing.T) {
				c := fixture.New(t, p.URL, revision, "")
				if group != "" {
					c.Header.Set("Remote-Groups", group)
				}
				for method, names := range all {
					a := caddytest.HasListed(t, c, method, len(shown[method]))
					if got := itemNames(t, a, method); !slices.Equal(got, shown[method]) {
						t.Errorf("%s has %q, want %q", method, got, shown[method])
					}
					for _, name := range names {
						one.Host.Forget()
						two.Host.Forget()
						wantNamed(t, c, method, name, slices.Contains(shown[method], name), one, two)
					}
				}
			})
		}
	}
}

// TestToolkitRulesOfShortenedNames has rules name tools and prompts whose names were shortened: by
// the name that clients see, or by the server's own behind its whole prefix.
func TestToolkitRulesOfShortenedNames(t *testing.T) {
	const own, prefix = "deleteConfluencePageRestrictionsAndPermissions", "atlassian__"
	named := map[string][]string{scripted.ToolsList: {own, "get_page"}, scripted.PromptsList: {own, "get_page"}}
	_, plain := ruledServer(t, "atlassian", named)
	c := fixture.NewModern(t, caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{plain})).URL, "")
	shown := itemNames(t, caddytest.HasListed(t, c, scripted.ToolsList, 2), scripted.ToolsList)[0]
	if shown == prefix+own || len(shown) != 48 {
		t.Fatalf("the long name is shown as %s", shown)
	}
	for _, rule := range []struct {
		effect, pattern string
		hidden          bool
	}{
		{"deny", "*Permissions", true},
		{"deny", prefix + own, true},
		{"deny", shown, true},
		{"deny", "*_" + shown[len(shown)-6:], true},
		{"deny", own, false},
		{"deny", "*permissions", false},
		{"allow", "*Permissions", false},
		{"allow", shown, false},
		{"allow", prefix + "get_*", true},
	} {
		t.Run(rule.effect+" "+rule.pattern, func(t *testing.T) {
			w, m := ruledServer(t, "atlassian", named)
			p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}, rule.effect+" tools "+rule.pattern, rule.effect+" prompts "+rule.pattern))
			caddytest.AwaitReady(t, "mcp_cache/atlassian")
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				c := fixture.New(t, p.URL, revision, "")
				for _, method := range []string{scripted.ToolsList, scripted.PromptsList} {
					var a *fixture.Answer
					fixture.Await(t, "a hit", func() bool {
						a = c.List(method)
						return a.CacheStatus().Hit && a.CacheStatus().Detail == ""
					})
					if got := itemNames(t, a, method); slices.Contains(got, shown) == rule.hidden {
						t.Errorf("%s has %q", method, got)
					}
					w.Host.Forget()
					wantNamed(t, c, method, shown, !rule.hidden, w)
				}
			})
			var status struct {
				Rules []struct{ Unused []string }
			}
			caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &status)
			names := rule.hidden || rule.effect == "allow"
			for _, r := range status.Rules {
				if (len(r.Unused) == 0) != names {
					t.Errorf("the status calls the patterns %q unused", r.Unused)
				}
			}
			if len(status.Rules) != 2 {
				t.Errorf("the status has %d rules", len(status.Rules))
			}
		})
	}
}

// wantNamed names an item. If the caller may not, the answer has to be that of what does not
// exist.
func wantNamed(t *testing.T, c *fixture.Raw, method, name string, may bool, servers ...*caddytest.World) {
	t.Helper()
	named, params, missing := "tools/call", fmt.Sprintf(`"name":%q`, name), "Unknown tool: "+name
	switch method {
	case scripted.PromptsList:
		named, missing = "prompts/get", "Unknown prompt: "+name
	case scripted.ResourcesList:
		named, params, missing = "resources/read", fmt.Sprintf(`"uri":%q`, name), "Resource not found"
	case scripted.TemplatesList:
		named, params, missing = "completion/complete", fmt.Sprintf(`"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"x","value":"v"}`, name), "Resource not found"
	}
	a := c.Call(named, c.Params(params))
	asked := 0
	for _, w := range servers {
		asked += len(clientsOf(w))
	}
	switch {
	case may && (a.Status != http.StatusOK || a.ErrorCode() != 0 || asked == 0):
		t.Errorf("%s %s gave %s: %s", named, name, a, a.Body)
	case !may && (a.ErrorCode() == 0 || !strings.Contains(string(a.Body), missing) || asked != 0):
		t.Errorf("%s %s, which is hidden, gave %s: %s; servers were asked %d times", named, name, a, a.Body, asked)
	case !may && uriKey[method] == "" && !strings.Contains(a.Header.Get("Cache-Status"), "detail=denied"):
		t.Errorf("%s %s: Cache-Status is %s", named, name, a.Header.Get("Cache-Status"))
	}
	if method == scripted.ResourcesList && may && c.Modern() && !strings.Contains(string(a.Body), `"cacheScope":"private"`) {
		t.Errorf("what others may not read says %s", a.Body)
	}
}

// TestToolkitRulesHideWhatIsMissing: nobody can tell what is hidden from what does not exist, and
// no spelling of a name gets around a rule.
func TestToolkitRulesHideWhatIsMissing(t *testing.T) {
	for _, unlisted := range []string{"deny", "allow"} {
		t.Run("unlisted "+unlisted, func(t *testing.T) { hideWhatIsMissing(t, "unlisted "+unlisted) })
	}
}

func hideWhatIsMissing(t *testing.T, unlisted string) {
	long := strings.Repeat("l", 60)
	one, first := ruledServer(t, "one", map[string][]string{
		scripted.ToolsList: {"get_a", "drop_a", long[:45]}, scripted.PromptsList: {"drop_p"}, scripted.ResourcesList: {"docs://secret/a"}, scripted.TemplatesList: {"docs://{+x}"},
	}, "deny tools drop_*", "deny prompts drop_*", "deny resources docs://secret/*", "deny resource_templates docs://*")
	two, second := ruledServer(t, "two", map[string][]string{scripted.ToolsList: {"drop_bare", "get_bare"}, scripted.ResourcesList: {"two://a"}}, "prefix off")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}, "deny tools drop_* one__lll*_*", unlisted))
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "")
		caddytest.HasListed(t, c, scripted.ToolsList, 2)
		caddytest.HasListed(t, c, scripted.ResourcesList, 1)
		one.Host.Forget()
		two.Host.Forget()
		for _, like := range []struct {
			method, member  string
			hidden, missing []string
		}{
			{"tools/call", `"name":%q`, []string{"one__drop_a"}, []string{"one__drop_x"}},
			{"tools/call", `"name":%q`, []string{"drop_bare"}, []string{"drop_none"}},
			{"tools/call", `"name":%q`, []string{"one__" + long[:45]}, []string{"one__" + long[:46]}}, // listed by a shorter name
			{"prompts/get", `"name":%q`, []string{"one__drop_p"}, []string{"one__drop_x"}},
			{"completion/complete", `"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":"v"}`, []string{"one__drop_p"}, []string{"one__drop_x"}},
			{"completion/complete", `"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"x","value":"v"}`, []string{"docs://{+x}"}, []string{"docs://{+y}"}},
			{
				"resources/read", `"uri":%q`, []string{"docs://secret/a", "docs://secret/../secret/a", "docs://SECRET/a", "docs://secret/%61", "docs://secret//a"},
				[]string{"docs://secret/b", "nothing://x"},
			},
			{"resources/read", `"uri":%q`, []string{"DOCS://secret/a"}, []string{"DOCS://secret/b"}},
		} {
			answer := func(name string) string {
				a := c.Call(like.method, c.Params(fmt.Sprintf(like.member, name)))
				return strings.ReplaceAll(fmt.Sprint(a.Status, a.Header["Cache-Status"], a.Header["Content-Type"], string(a.Body[len(fmt.Sprint(a.ErrorCode())):])), name, "NAME")
			}
			for _, missing := range like.missing {
				want := withoutID(answer(missing))
				for _, hidden := range like.hidden {
					if got := withoutID(answer(hidden)); got != want {
						t.Errorf("%s %s gave\n%s, and what is missing\n%s", like.method, hidden, got, want)
					}
				}
			}
		}
		if asked := len(clientsOf(one)) + len(clientsOf(two)); asked != 0 {
			t.Errorf("servers were asked %d times", asked)
		}
	}
}

var idMember = regexp.MustCompile(`"id":\d+`)

// withoutID returns an answer without what tells it from others to the same request.
func withoutID(answer string) string { return idMember.ReplaceAllString(answer, "") }

// TestToolkitRulesByHints: rules that speak of hints go by what the server lists, and what it
// does not list is refused.
func TestToolkitRulesByHints(t *testing.T) {
	one, first := ruledServer(t, "one", nil)
	two, second := ruledServer(t, "two", nil, "allow tools hint:read_only")
	for _, w := range []*caddytest.World{one, two} {
		w.SetList(scripted.ToolsList, scripted.Page{
			`{"name":"reads","annotations":{"readOnlyHint":true}}`, `{"name":"writes","annotations":{"destructiveHint":false}}`, `{"name":"destroys"}`,
		})
	}
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}, "deny tools hint:destructive"))
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "")
		if names := itemNames(t, caddytest.HasListed(t, c, scripted.ToolsList, 3), scripted.ToolsList); !slices.Equal(names, []string{"one__reads", "one__writes", "two__reads"}) {
			t.Errorf("clients are shown %q", names)
		}
		for _, name := range []string{"one__reads", "one__writes", "one__destroys", "one__new", "two__reads", "two__writes", "two__destroys", "two__new"} {
			one.Host.Forget()
			two.Host.Forget()
			wantNamed(t, c, scripted.ToolsList, name, slices.Contains([]string{"one__reads", "one__writes", "two__reads"}, name), one, two)
		}
	}
}

// TestToolkitRulesFreeNames: what is hidden leaves its name to the next server that has it, for
// those from whom it is hidden, and no conflict is left.
func TestToolkitRulesFreeNames(t *testing.T) {
	_, first := ruledServer(t, "one", map[string][]string{scripted.ToolsList: {"search", "both"}}, "prefix off", "deny @support tools search", "deny tools both")
	two, second := ruledServer(t, "two", map[string][]string{scripted.ToolsList: {"search", "both"}}, "prefix off")
	p := caddytest.StartProxy(t, support+caddytest.ToolkitOf([]caddytest.Member{first, second}))
	for _, name := range []string{"one", "two"} {
		caddytest.AwaitReady(t, "mcp_cache/"+name)
	}
	for group, asked := range map[string]int{"": 1, "support": 2} { // both is of two for everybody
		c := fixture.NewModern(t, p.URL, "")
		c.Header.Set("Remote-Groups", group)
		caddytest.HasListed(t, c, scripted.ToolsList, 2)
		two.Host.Forget()
		for _, name := range []string{"search", "both"} {
			if a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q`, name))); a.ErrorCode() != 0 {
				t.Errorf("%s gave %s", name, a.Body)
			}
		}
		if n := len(clientsOf(two)); n != asked {
			t.Errorf("callers in %q reach the second server with %d calls, want %d", group, n, asked)
		}
	}
	if _, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil); !strings.Contains(string(body), `"item":"search"`) || strings.Contains(string(body), `"item":"both"`) {
		t.Errorf("the status is %s", body)
	}
	why, _ := caddytest.Command(t, 0, "list", "tools", "--why", "--as", "header.Remote-Groups=support")
	if got := strings.Join(strings.Fields(why), " "); !strings.Contains(got, "search hidden mcp_cache/one 0: deny tools search") || !strings.Contains(got, "both hidden mcp_cache/one 1: deny tools both everybody") ||
		!strings.Contains(got, "search allowed there are no rules") {
		t.Errorf("the command prints\n%s", why)
	}
	as, _ := caddytest.Command(t, 0, "list", "tools", "--as", "header.Remote-Groups=support", "--json")
	if strings.Count(as, `"search"`) != 1 || strings.Count(as, `"both"`) != 1 {
		t.Errorf("as such a caller, the list is %s", as)
	}
	if _, text := caddytest.Command(t, 1, "list", "tools", "--as", "{nobody.asks}=1"); !strings.Contains(text, "no rule asks for nobody.asks") {
		t.Errorf("what no rule asks for is said with %s", text)
	}
}

// TestToolkitRulesOfCallers: rules and lists of single callers go together, a matcher that fails
// is counted for the server whose rule it is, and no client escapes a rule by naming the field of
// a header that it goes by.
func TestToolkitRulesOfCallers(t *testing.T) {
	one, first := ruledServer(t, "one", nil, "authorization forward", "allow @failing tools *", "allow @support tools item-0001", "allow tools item-0000")
	one.SetHints(`"ttlMs":3600000,"cacheScope":"private"`)
	for _, tenant := range []string{"", "Bearer blue", "Bearer green"} {
		one.SetPrivateList(tenant, scripted.ToolsList, scripted.Items(scripted.ToolsList, tenant, 3))
	}
	_, second := ruledServer(t, "two", map[string][]string{scripted.ToolsList: {"a", "b"}})
	p := caddytest.StartProxy(t, support+caddytest.ToolkitOf([]caddytest.Member{first, second}, "deny @support tools two__b", "admit all"))
	for _, tenant := range []string{"", "Bearer blue", "Bearer green"} {
		for group, shown := range map[string][]string{"": {"one__item-0000", "two__a", "two__b"}, "support": {"one__item-0000", "one__item-0001", "two__a"}} {
			c := fixture.NewModern(t, p.URL, tenant)
			c.Header.Set("Remote-Groups", group)
			c.Header.Set("Connection", "Remote-Groups")
			a := caddytest.HasListed(t, c, scripted.ToolsList, len(shown))
			if got := itemNames(t, a, scripted.ToolsList); !slices.Equal(got, shown) || tenant != "" && !strings.Contains(string(a.Body), tenant) || !strings.Contains(string(a.Body), `"cacheScope":"private"`) {
				t.Errorf("a caller of %q in %q is given %s", tenant, group, a.Body)
			}
		}
	}
	if n := caddytest.Metric(t, `rule_errors_total{handler="mcp_cache/one"}`); n == 0 {
		t.Error("no failure of a matcher is counted")
	}
}

// TestToolkitRulesCompress: a list that rules have filtered is sent compressed, and is the same.
func TestToolkitRulesCompress(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("get_%d", i))
	}
	_, first := ruledServer(t, "one", map[string][]string{scripted.ToolsList: names}, "deny @support tools get_1*")
	p := caddytest.StartProxy(t, support+caddytest.ToolkitOf([]caddytest.Member{first}))
	c := fixture.NewModern(t, p.URL, "")
	c.Header.Set("Remote-Groups", "support")
	plain := caddytest.HasListed(t, c, scripted.ToolsList, 89)
	c.Header.Set("Accept-Encoding", "gzip")
	var a *fixture.Answer
	fixture.Await(t, "a compressed list", func() bool {
		a = c.List(scripted.ToolsList)
		return a.Header.Get("Content-Encoding") == "gzip"
	})
	reader, err := gzip.NewReader(bytes.NewReader(a.Body))
	if err != nil {
		t.Fatal(err)
	}
	if a.Body, err = io.ReadAll(reader); err != nil || !bytes.Equal(a.Part("result", "tools"), plain.Part("result", "tools")) {
		t.Errorf("compressed, the list is %v, %s", err, a.Body)
	}
}

// TestToolkitRulesAndNotices: of a change of what nobody may see, nobody is told.
func TestToolkitRulesAndNotices(t *testing.T) {
	one, first := ruledServer(t, "one", map[string][]string{scripted.ToolsList: {"a", "drop_a"}}, "refresh 1ms", "deny tools drop_*")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	_, s := listener(t, p, scripted.Modern, 1)
	fixture.Await(t, "the feeds' streams", func() bool { return one.Streams(scripted.Feeds) == 2 })
	one.SetList(scripted.ToolsList, namedItems(scripted.ToolsList, "a", "drop_b"))
	one.Changed(scripted.Feeds, scripted.ToolsList)
	fixture.Await(t, "the new list", func() bool {
		status, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache/one/tools", nil)
		return status == http.StatusOK && strings.Contains(string(body), "drop_b")
	})
	one.SetList(scripted.PromptsList, namedItems(scripted.PromptsList, "new"))
	one.Changed(scripted.Feeds, scripted.PromptsList)
	hears(t, s, "notifications/prompts/list_changed") // and nothing before it
}

// TestToolkitHeadersSayWhatTheMessageDoes: a legacy client's Mcp-Method and Mcp-Name, which its
// revision does not know, name nothing else at the server than its message does.
func TestToolkitHeadersSayWhatTheMessageDoes(t *testing.T) {
	one, first := ruledServer(t, "one", map[string][]string{scripted.ToolsList: {"get_a", "drop_a"}}, "deny tools drop_*")
	one.SetRevisions(legacyRevisions...)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	c := legacyClient(t, p, scripted.LatestLegacy, 1)
	c.Header.Set("Mcp-Method", "prompts/get")
	c.Header.Set("Mcp-Name", "drop_a")
	wantNamed(t, c, scripted.ToolsList, "one__drop_a", false, one)
	one.Host.Forget()
	wantNamed(t, c, scripted.ToolsList, "one__get_a", true, one)
	for _, r := range clientsOf(one) {
		if r.Method == "tools/call" && (r.Header.Get("Mcp-Method") != "tools/call" || r.Header.Get("Mcp-Name") != "get_a") {
			t.Errorf("a server is sent the header %v", r.Header)
		}
	}
}

// TestToolkitRulesGoByTheCallersList: where rules speak of hints, calls are held against the list
// that the caller is shown, also if the server has called another one everybody's before, and
// lets the feed in no more.
func TestToolkitRulesGoByTheCallersList(t *testing.T) {
	one, first := ruledServer(t, "one", nil, "authorization forward", "allow tools hint:read_only")
	one.SetHints(scripted.PublicBrief)
	reads := func(names ...string) (page scripted.Page) {
		for _, name := range []string{"flip", "own"} {
			page = append(page, fmt.Sprintf(`{"name":%q,"annotations":{"readOnlyHint":%t}}`, name, slices.Contains(names, name)))
		}
		return page
	}
	one.SetList(scripted.ToolsList, reads("flip"))
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	caddytest.AwaitReady(t, "mcp_cache/one")
	one.SetDoor(func(r *http.Request) int {
		if r.Header.Get("Authorization") != "Bearer user" {
			return http.StatusUnauthorized
		}
		return 0
	})
	one.SetHints(`"ttlMs":3600000,"cacheScope":"private"`)
	one.SetPrivateList("Bearer user", scripted.ToolsList, reads("own"))
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "Bearer user")
		fixture.Await(t, "the caller's own list to count", func() bool {
			return c.Call("tools/call", c.Params(`"name":"one__flip"`)).ErrorCode() == -32602
		})
		if names := itemNames(t, caddytest.HasListed(t, c, scripted.ToolsList, 1), scripted.ToolsList); !slices.Equal(names, []string{"one__own"}) {
			t.Errorf("the caller is shown %q", names)
		}
		for range 5 {
			one.Host.Forget()
			wantNamed(t, c, scripted.ToolsList, "one__flip", false, one)
			wantNamed(t, c, scripted.ToolsList, "one__own", true, one)
		}
	}
}
