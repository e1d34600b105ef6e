package operate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestAdminShowsTheCache looks at everything that the admin API shows of a warm
// cache.
func TestAdminShowsTheCache(t *testing.T) {
	w := caddytest.NewWorld(t)
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	caddytest.AwaitReady(t, "mcp_cache")
	_, all := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/", nil)
	caddytest.WantSchema(t, all)
	_, one := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil)
	caddytest.WantSchema(t, slices.Concat([]byte("["), one, []byte("]")))

	var status caddytest.Status
	caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &status)
	if !status.Ready || status.Name != "mcp_cache" || len(status.Feeds) != 2 || len(status.Kinds) != 9 {
		t.Errorf("status is %+v", status)
	}
	for _, k := range status.Kinds {
		if k.Kind != "discover" && (k.Items != 3 || k.Hits == 0 || k.Bytes == 0) {
			t.Errorf("a list is %+v", k)
		}
	}
	for path, want := range map[string][]string{
		"tools":                               {"item-0000", "item-0001", "item-0002"},
		"tools?like=item-*[02]":               {"item-0000", "item-0002"},
		"resources?like=test://*1":            {"test://item-0001"},
		"resource_templates?like=*0002%2F{x}": {"test://item-0002/{x}"},
		"prompts?like=":                       {"item-0000", "item-0001", "item-0002"},
		"prompts?like=none":                   nil,
	} {
		var items []struct{ Name, Title, Description string }
		caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache/"+path, &items)
		var names []string
		for _, item := range items {
			names = append(names, item.Name)
			if item.Description != "v1" {
				t.Errorf("an item of %s is %+v", path, item)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s has %q, want %q", path, names, want)
		}
	}
	for method, path := range map[string]string{
		scripted.ToolsList:     "tools/item-0001",
		scripted.PromptsList:   "prompts/item-0001",
		scripted.ResourcesList: "resources/" + url.PathEscape("test://item-0001"),
		scripted.TemplatesList: "resource_templates/" + url.PathEscape("test://item-0001/{x}"),
	} {
		_, item := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache/"+path, nil)
		if want := scripted.Items(method, "v1", 2)[1]; string(item) != want {
			t.Errorf("%s is %s, want %s", path, item, want)
		}
	}
}

// TestAdminErrors asks for what there is not: the answers are Caddy's admin
// errors.
func TestAdminErrors(t *testing.T) {
	w := caddytest.NewWorld(t)
	w.Warm(scripted.Modern)
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/mcp_cache/nobody", 404, "there are: mcp_cache"},
		{"GET", "/mcp_cache/mcp_cache/nothing", 404, "not one of tools"},
		{"GET", "/mcp_cache/mcp_cache/tools/none", 404, "no item of tools"},
		{"GET", "/mcp_cache/mcp_cache/tools/", 404, "no item of tools"},
		{"GET", "/mcp_cache/mcp_cache/discover", 404, "not one of tools, prompts, resources, resource_templates"},
		{"GET", "/mcp_cache/mcp_cache/tools?like=%5B", 400, "not a pattern"},
		{"POST", "/mcp_cache/", 405, "only GET"},
		{"DELETE", "/mcp_cache/mcp_cache", 405, "only GET"},
		{"PUT", "/mcp_cache/mcp_cache/tools", 405, "only GET"},
		{"POST", "/mcp_cache/mcp_cache/tools/item-0000", 405, "only GET"},
		{"GET", "/mcp_cache/mcp_cache/refresh", 405, "only POST"},
		{"GET", "/mcp_cache/mcp_cache/purge", 405, "only POST"},
		{"POST", "/mcp_cache/mcp_cache/refresh?kind=nothing", 404, "not one of tools"},
	} {
		status, body := caddytest.AskAdmin(t, c.method, c.path, nil)
		var answer struct{ Error string }
		if err := json.Unmarshal(body, &answer); err != nil || status != c.status || !strings.Contains(answer.Error, c.says) {
			t.Errorf("%s %s gave %d, %s; want %d, %s", c.method, c.path, status, body, c.status, c.says)
		}
	}
}

// TestAdminAccessRules asks as a browser would that a foreign page has sent:
// Caddy's own rules of access hold.
func TestAdminAccessRules(t *testing.T) {
	w := caddytest.NewWorld(t)
	w.Warm(scripted.Modern)
	caddytest.AwaitReady(t, "mcp_cache")
	fetched := w.Host.CountFeed(scripted.ToolsList)
	for name, header := range map[string]http.Header{
		"host":   {"Host": {"evil.example"}},
		"origin": {"Origin": {"http://evil.example"}},
	} {
		for _, c := range [][2]string{{"GET", "/mcp_cache/"}, {"POST", "/mcp_cache/mcp_cache/refresh"}, {"POST", "/mcp_cache/mcp_cache/purge"}} {
			if status, body := caddytest.AskAdmin(t, c[0], c[1], header); status != http.StatusForbidden {
				t.Errorf("foreign %s: %s %s gave %d, %s", name, c[0], c[1], status, body)
			}
		}
	}
	if n := w.Host.CountFeed(scripted.ToolsList); n != fetched {
		t.Errorf("foreign requests cost %d lists", n-fetched)
	}
}

// TestPurge forgets who has been let in, but not the snapshots.
func TestPurge(t *testing.T) {
	w := caddytest.NewWorld(t)
	c := w.ClientAs(scripted.Modern, "Bearer token")
	c.Settle(scripted.ToolsList)
	caddytest.AwaitReady(t, "mcp_cache")
	if n := caddytest.Metric(t, `partitions{handler="mcp_cache"}`); n == 0 {
		t.Error("nobody is remembered")
	}
	if status, body := caddytest.AskAdmin(t, http.MethodPost, "/mcp_cache/mcp_cache/purge", nil); status != http.StatusNoContent {
		t.Fatalf("purging gave %d, %s", status, body)
	}
	if n := caddytest.Metric(t, `partitions{handler="mcp_cache"}`); n != 0 {
		t.Errorf("after a purge, %v are remembered", n)
	}
	fetched := w.Host.CountFeed(scripted.ToolsList)
	a := c.List(scripted.ToolsList)
	caddytest.WantForwarded(t, a)
	if detail := a.CacheStatus().Detail; detail != "admission" {
		t.Errorf("after a purge, a list gave %s", a)
	}
	caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1")
	if n := w.Host.CountFeed(scripted.ToolsList); n != fetched {
		t.Errorf("the purge cost the feed %d lists", n-fetched)
	}
}

// TestRefreshNow changes a list without a word: a refresh waits for what is new
// and says what it is.
func TestRefreshNow(t *testing.T) {
	w := caddytest.NewWorld(t)
	clients := []*fixture.Raw{w.Warm(scripted.Modern), w.Warm(scripted.LatestLegacy)}
	caddytest.AwaitReady(t, "mcp_cache")
	items := scripted.Items(scripted.ToolsList, "v1", 4)
	items[1] = scripted.Items(scripted.ToolsList, "v2", 2)[1]
	w.SetList(scripted.ToolsList, items[1:])
	results := caddytest.RefreshNow(t, "tools")
	if len(results) != len(caddytest.Revisions) {
		t.Fatalf("refreshing gave %+v", results)
	}
	for _, r := range results {
		if r.Kind != "tools" || r.Items != 3 || r.Error != "" || !slices.Equal(r.Added, []string{"item-0003"}) ||
			!slices.Equal(r.Removed, []string{"item-0000"}) || !slices.Equal(r.Changed, []string{"item-0001"}) {
			t.Errorf("refreshing gave %+v", r)
		}
	}
	for _, c := range clients {
		if !c.Modern() {
			c.List(scripted.ToolsList) // shows what such clients get since
		}
		caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v2")
	}
	all := caddytest.RefreshNow(t, "")
	if len(all) != 9 {
		t.Errorf("refreshing everything gave %+v", all)
	}
	for _, r := range all {
		if r.Error != "" || len(r.Added)+len(r.Removed)+len(r.Changed) > 0 {
			t.Errorf("refreshing what has not changed gave %+v", r)
		}
	}
	w.SetScript(scripted.ToolsList, scripted.ErrorObject)
	for _, r := range caddytest.RefreshNow(t, "tools") {
		if !strings.Contains(r.Error, "database is down") {
			t.Errorf("a refresh that fails gave %+v", r)
		}
	}
	caddytest.WantHit(t, clients[0].List(scripted.ToolsList), scripted.ToolsList, "v2")
	w.Host.Kill()
	for _, r := range caddytest.RefreshNow(t, "prompts") {
		if r.Error == "" {
			t.Errorf("without an upstream, refreshing gave %+v", r)
		}
	}
	caddytest.WantHit(t, clients[1].List(scripted.PromptsList), scripted.PromptsList, "v1")
}

// TestRefreshesAtOnceShareOne holds the upstream's answer back while two
// refreshes wait for it.
func TestRefreshesAtOnceShareOne(t *testing.T) {
	w := caddytest.NewWorld(t)
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	caddytest.AwaitReady(t, "mcp_cache")
	release := make(chan struct{})
	w.SetScript(scripted.ToolsList, scripted.Hang(release))
	before := w.Host.CountFeed(scripted.ToolsList)
	results := make(chan []caddytest.Refreshed, 2)
	for range 2 {
		go func() { results <- caddytest.RefreshNow(t, "tools") }()
	}
	fixture.Await(t, "the fetches", func() bool { return w.Host.CountFeed(scripted.ToolsList) == before+len(caddytest.Revisions) })
	fixture.Await(t, "both requests", func() bool { return strings.Count(w.Proxy.Log(), "/mcp_cache/mcp_cache/refresh") >= 2 })
	select {
	case r := <-results:
		t.Errorf("a refresh did not wait: %+v", r)
	default:
	}
	close(release)
	for range 2 {
		if r := <-results; len(r) != len(caddytest.Revisions) || r[0].Error != "" {
			t.Errorf("refreshing gave %+v", r)
		}
	}
	if n := w.Host.CountFeed(scripted.ToolsList) - before; n != len(caddytest.Revisions) {
		t.Errorf("two refreshes cost %d requests, want one of each revision", n)
	}
}

// TestReadiness probes a handler whose upstream comes late, answers its lists
// one by one, and goes again.
func TestReadiness(t *testing.T) {
	w := caddytest.NewUpstream(t)
	release := make(chan struct{})
	w.SetScript(scripted.PromptsList, scripted.Hang(release))
	w.Proxy = caddytest.StartProxy(t, caddytest.Directive(w.Host.URL))
	probe := func() int {
		status, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil)
		caddytest.WantSchema(t, slices.Concat([]byte("["), body, []byte("]")))
		return status
	}
	state := func() map[string]string {
		var all []caddytest.Status
		caddytest.ReadAdmin(t, "/mcp_cache/", &all)
		return all[0].States()
	}
	fixture.Await(t, "the feeds to fail", func() bool { return fmt.Sprint(state()) == "map[legacy:down modern:down]" })
	if status := probe(); status != http.StatusServiceUnavailable {
		t.Errorf("without an upstream, the probe gave %d", status)
	}
	w.Host.Start()
	fixture.Await(t, "the feeds to hydrate", func() bool { return fmt.Sprint(state()) == "map[legacy:hydrating modern:hydrating]" })
	if status := probe(); status != http.StatusServiceUnavailable {
		t.Errorf("while the feeds hydrate, the probe gave %d", status)
	}
	close(release)
	fixture.Await(t, "readiness", func() bool { return probe() == http.StatusOK })
	fixture.Await(t, "both feeds", func() bool { return fmt.Sprint(state()) == "map[legacy:ready modern:ready]" })
	w.Host.Kill()
	caddytest.RefreshNow(t, "")
	if s := fmt.Sprint(state()); s != "map[legacy:down modern:down]" {
		t.Errorf("without an upstream, the feeds are %s", s)
	}
	if status := probe(); status != http.StatusOK {
		t.Errorf("with copies of a dead upstream's lists, the probe gave %d", status)
	}
}

// TestAdminAfterReloads looks at the cache after reloads of all kinds: it is
// the one of the configuration that is in force.
func TestAdminAfterReloads(t *testing.T) {
	w := caddytest.NewWorld(t)
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	caddytest.AwaitReady(t, "mcp_cache")
	var before, after caddytest.Status
	caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &before)
	same := func(what string) {
		t.Helper()
		after = caddytest.Status{}
		caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &after)
		for i := range before.Feeds {
			if after.Feeds[i].Since != before.Feeds[i].Since {
				t.Errorf("after %s, a feed is another: %+v, was %+v", what, after.Feeds[i], before.Feeds[i])
			}
		}
		if fmt.Sprint(after.Kinds) != fmt.Sprint(before.Kinds) {
			t.Errorf("after %s, the kinds are\n%+v, were\n%+v", what, after.Kinds, before.Kinds)
		}
		var all []caddytest.Status
		if caddytest.ReadAdmin(t, "/mcp_cache/", &all); len(all) != 1 {
			t.Errorf("after %s, there are %d handlers", what, len(all))
		}
	}
	w.Proxy.Reload(caddytest.Directive(w.Host.URL))
	same("a reload")
	for _, wrong := range rejectedConfigurations(w.Host.URL) {
		if err := w.Proxy.TryReload(wrong); err == nil {
			t.Fatalf("%q was accepted", wrong)
		}
		same("a rejected reload")
	}
	w.Proxy.Reload(caddytest.Directive(w.Host.URL, "name renamed"))
	if status, _ := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil); status != http.StatusNotFound {
		t.Errorf("the former name gives %d", status)
	}
	caddytest.ReadAdmin(t, "/mcp_cache/renamed", &after)
	if after.Name != "renamed" || fmt.Sprint(after.States()) != fmt.Sprint(before.States()) {
		t.Errorf("the renamed handler is %+v", after)
	}
	w.Proxy.Reload("respond gone 410")
	var none []caddytest.Status
	if caddytest.ReadAdmin(t, "/mcp_cache/", &none); len(none) != 0 {
		t.Errorf("without a handler, there are %+v", none)
	}
}

// rejectedConfigurations returns sites that Caddy does not take: for an option,
// in provisioning the handler, and after the handler has been provisioned.
func rejectedConfigurations(upstream string) []string {
	return []string{
		caddytest.Directive(upstream, "no_such_option 1"),
		caddytest.Directive(upstream, "name rejected", "guard bearer {env.MCP_CACHE_TEST_UNSET}"),
		caddytest.Directive(upstream, "name rejected") + "\nroute /never {\ntemplates {\nmime\n}\n}",
	}
}

// TestHandlersAreToldApart runs three handlers, two of one name.
func TestHandlersAreToldApart(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	other := caddytest.NewUpstream(t)
	other.Mark(scripted.ToolsList, "other")
	other.Host.Start()
	site := func(names ...string) string {
		return fmt.Sprintf("handle /a/* {\n%s\n}\nhandle /b/* {\n%s\n}\n", caddytest.Directive(w.Host.URL, "name "+names[0]), caddytest.Directive(other.Host.URL, "name "+names[1]))
	}
	w.Proxy = caddytest.StartProxy(t, site("first", "second"))
	for name, mark := range map[string]string{"first": "v1", "second": "other"} {
		caddytest.AwaitReady(t, name)
		var items []struct{ Description string }
		if caddytest.ReadAdmin(t, "/mcp_cache/"+name+"/tools", &items); len(items) == 0 || items[0].Description != mark {
			t.Errorf("the tools of %s are %+v", name, items)
		}
	}
	w.Proxy.Reload(site("both", "both"))
	if status, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/both/tools", nil); status != http.StatusConflict {
		t.Errorf("an ambiguous name gave %d, %s", status, body)
	}
	var all []caddytest.Status
	if caddytest.ReadAdmin(t, "/mcp_cache/", &all); len(all) != 2 || all[0].Upstream == all[1].Upstream {
		t.Errorf("handlers are %+v", all)
	}
}
