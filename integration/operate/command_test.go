package operate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestDescribeStrangeNames describes items whose names a path might swallow.
func TestDescribeStrangeNames(t *testing.T) {
	w := caddytest.NewUpstream(t)
	names := []string{
		".", "..", "...", ".a", "a/..", "../a", "a/../b", "./a", "/", "//", "a//b", "a/", "/a", "a/b", "%2f", "%2F", "a%2fb", "%2E%2E",
		"%", "%zz", "a b", " ", "a+b", "a?b=c", "?", "a#b", "#", "a;b", "a:b", "\\", "\n", "\x1b", "日本 😀", "refresh", "purge",
	}
	var page scripted.Page
	for _, name := range names {
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, quoted))
	}
	w.SetList(scripted.ToolsList, page)
	w.Start()
	w.Warm(scripted.Modern)
	caddytest.AwaitReady(t, "mcp_cache")
	for i, name := range names {
		if out, _ := caddytest.Command(t, 0, "describe", "tools", name, "--json"); out != page[i]+"\n" {
			t.Errorf("%q is %s, want %s", name, out, page[i])
		}
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"describe", "tools", "../tools/a"}, `no item of tools is called "../tools/a"`},
		{[]string{"describe", "tools", ""}, `no item of tools is called ""`},
		{[]string{"describe", "prompts", ".."}, `no item of prompts is called ".."`},
		{[]string{"describe", "..", "a/b"}, `".." is not one of tools`},
		{[]string{"describe", "", "a/b"}, `"" is not one of tools`},
		{[]string{"list", ".."}, `".." is not one of tools`},
		{[]string{"list", ""}, `"" is not one of tools`},
		{[]string{"list", "tools", "--name", ".."}, `no handler is called ".."`},
	} {
		if _, complaint := caddytest.Command(t, 1, c.args...); !strings.Contains(complaint, c.says) {
			t.Errorf("%q complains: %s", c.args, complaint)
		}
	}
}

// TestCommandsBeforeTheFirstList asks for lists of a server that is down from the start.
func TestCommandsBeforeTheFirstList(t *testing.T) {
	w := caddytest.NewUpstream(t)
	caddytest.StartProxy(t, caddytest.Directive(w.Host.URL))
	for _, args := range [][]string{{"list", "tools"}, {"describe", "tools", "a"}} {
		out, complaint := caddytest.Command(t, 1, args...)
		caddytest.WantOneLine(t, complaint, "there is no snapshot of tools: no feed has fetched it yet; see caddy mcp-cache status")
		if out != "" {
			t.Errorf("%q prints %s", args, out)
		}
	}
}

// TestCommands runs each command against a warm cache.
func TestCommands(t *testing.T) {
	w := caddytest.NewWorld(t)
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	caddytest.AwaitReady(t, "mcp_cache")

	t.Run("status", func(t *testing.T) {
		table, _ := caddytest.Command(t, 0, "status")
		if !strings.HasPrefix(table, "mcp_cache is ready, in front of http://") {
			t.Errorf("status is\n%s", table)
		}
		for _, era := range []string{"legacy", "modern"} {
			if words := caddytest.Fields(table, era); len(words) < 3 || words[2] != "ready" {
				t.Errorf("the %s feed is %q", era, words)
			}
		}
		if words := caddytest.Fields(table, "tools"); len(words) < 3 || words[2] != "3" {
			t.Errorf("tools are %q", words)
		}
		out, _ := caddytest.Command(t, 0, "status", "--json", "--name", "mcp_cache")
		caddytest.WantSchema(t, []byte(out))
		_, complaint := caddytest.Command(t, 1, "status", "--name", "nobody")
		if !strings.Contains(complaint, "there are: mcp_cache") {
			t.Errorf("an unknown name gives %s", complaint)
		}
	})
	t.Run("list", func(t *testing.T) {
		table, _ := caddytest.Command(t, 0, "list", "resources", "--like", "*0001")
		if caddytest.Fields(table, "test://item-0001") == nil || caddytest.Fields(table, "test://item-0002") != nil {
			t.Errorf("the list is\n%s", table)
		}
		if text, _ := caddytest.Command(t, 0, "list", "tools", "--like", "x*"); text != "Nothing in tools matches \"x*\".\n" {
			t.Errorf("without a match, the list is\n%s", text)
		}
		out, _ := caddytest.Command(t, 0, "list", "tools", "--json")
		var items []struct{ Name string }
		if err := json.Unmarshal([]byte(out), &items); err != nil || len(items) != 3 {
			t.Errorf("the list is %s", out)
		}
		caddytest.Command(t, 1, "list")
		caddytest.Command(t, 1, "lsit", "tools")
		_, complaint := caddytest.Command(t, 1, "list", "nothing")
		if !strings.Contains(complaint, "not one of tools") {
			t.Errorf("an unknown kind gives %s", complaint)
		}
	})
	t.Run("describe", func(t *testing.T) {
		const uri = "test://item-0002/{x}"
		want := scripted.Items(scripted.TemplatesList, "v1", 3)[2]
		out, _ := caddytest.Command(t, 0, "describe", "resource_templates", uri, "--json")
		if out != want+"\n" {
			t.Errorf("got %s, want %s", out, want)
		}
		text, _ := caddytest.Command(t, 0, "describe", "resource_templates", uri)
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(text)); err != nil || compact.String() != want || strings.Count(text, "\n") < 3 {
			t.Errorf("got %s", text)
		}
		_, complaint := caddytest.Command(t, 1, "describe", "tools", "none")
		if !strings.Contains(complaint, "no item of tools") {
			t.Errorf("an unknown item gives %s", complaint)
		}
		_, complaint = caddytest.Command(t, 1, "describe", "tools", "itme-0001")
		caddytest.WantOneLine(t, complaint, `no item of tools is called "itme-0001": did you mean "item-0001"?`)
		_, complaint = caddytest.Command(t, 1, "describe", "tool", "item-0001")
		caddytest.WantOneLine(t, complaint, `"tool" is not one of tools, prompts, resources, resource_templates (did you mean tools?)`)
	})
	t.Run("refresh", func(t *testing.T) {
		w.Mark(scripted.ToolsList, "v2")
		text, _ := caddytest.Command(t, 0, "refresh", "tools")
		if words := caddytest.Fields(text, "tools"); !slices.Equal(words, []string{"tools", "2025-11-25", "3", "0", "0", "3"}) {
			t.Errorf("refreshing gave\n%s", text)
		}
		if !strings.Contains(text, "~ 2026-07-28 tools: item-0002\n") {
			t.Errorf("refreshing gave\n%s", text)
		}
		out, _ := caddytest.Command(t, 0, "refresh", "--json")
		var results []caddytest.Refreshed
		if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) != 9 {
			t.Errorf("refreshing gave %s", out)
		}
		w.SetScript(scripted.ToolsList, scripted.ErrorObject)
		text, complaint := caddytest.Command(t, 5, "refresh")
		if !strings.Contains(text, "database is down") || !strings.Contains(complaint, "2 of 9 lists could not be fetched") {
			t.Errorf("a refresh that fails gave\n%s%s", text, complaint)
		}
		text, complaint = caddytest.Command(t, 5, "status")
		if words := caddytest.Fields(text, "legacy"); len(words) < 3 || words[2] != "degraded" || !strings.Contains(complaint, "degraded") {
			t.Errorf("status is\n%s%s", text, complaint)
		}
	})
}

// TestPurgeCommand has a caller's own copy forgotten, and that the upstream has
// let the caller in.
func TestPurgeCommand(t *testing.T) {
	w := caddytest.NewWorld(t)
	w.SetHints(scripted.PrivateHour)
	c := w.ClientAs(scripted.Modern, "Bearer own")
	caddytest.WantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	text, _ := caddytest.Command(t, 0, "purge")
	if !strings.HasPrefix(text, "mcp_cache has forgotten") {
		t.Errorf("purging says %s", text)
	}
	caddytest.WantForwarded(t, c.List(scripted.ToolsList))
	if out, _ := caddytest.Command(t, 0, "purge", "--json"); out != "{\n  \"purged\": \"mcp_cache\"\n}\n" {
		t.Errorf("purging says %s", out)
	}
	_, complaint := caddytest.Command(t, 1, "purge", "--name", "nobody")
	caddytest.WantOneLine(t, complaint, "no handler is called \"nobody\"; there are: mcp_cache")
	if strings.Contains(complaint, "{") {
		t.Errorf("the error has JSON in it: %s", complaint)
	}
}

// TestStatusOfALegacyServer shows nothing but its state of the revision that a
// server does not speak, and hits of one revision beside that revision only.
func TestStatusOfALegacyServer(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetRevisions(scripted.LatestLegacy)
	w.Start()
	caddytest.AwaitReady(t, "mcp_cache")
	w.Client(scripted.LatestLegacy).Settle(scripted.ToolsList)
	table, _ := caddytest.Command(t, 0, "status")
	if words := caddytest.Fields(table, "modern"); len(words) < 4 || words[2]+" "+words[3] != "not offered" || words[len(words)-1] != "-" {
		t.Errorf("status is\n%s", table)
	}
	if out, _ := caddytest.Command(t, 0, "status", "--json"); !strings.Contains(out, `"state": "unsupported"`) {
		t.Errorf("for programs, status is\n%s", out)
	}
}

// TestStatusOfAServerThatIsGone says so above all, and why in plain words.
func TestStatusOfAServerThatIsGone(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.AwaitReady(t, "mcp_cache")
	w.Host.Kill()
	caddytest.Command(t, 5, "refresh")
	table, complaint := caddytest.Command(t, 5, "status")
	if !strings.HasPrefix(table, "mcp_cache is down, in front of ") || !strings.Contains(complaint, "handler mcp_cache is down") {
		t.Errorf("status is\n%s%s", table, complaint)
	}
	if again, complaint := caddytest.Command(t, 0, "status", "--running"); !strings.HasPrefix(again, "mcp_cache is down, in front of ") || complaint != "" {
		t.Errorf("status --running is\n%s%s", again, complaint)
	}
	if want := " ago: connection refused at " + strings.TrimPrefix(strings.TrimSuffix(w.Host.URL, "/mcp"), "http://"); !strings.Contains(table, want) || strings.Contains(table, "dial tcp") {
		t.Errorf("it does not say %q:\n%s", want, table)
	}
}

// TestHitsAreOfTheirRevision hits at one revision and has the other's count stay.
func TestHitsAreOfTheirRevision(t *testing.T) {
	w := caddytest.NewWorld(t, "name counted")
	caddytest.AwaitReady(t, "counted")
	c := w.Client(scripted.Modern)
	c.Settle(scripted.ToolsList)
	c.List(scripted.ToolsList)
	hits := func() map[string]float64 {
		var s caddytest.Status
		caddytest.ReadAdmin(t, "/mcp_cache/counted", &s)
		counts := make(map[string]float64)
		for _, k := range s.Kinds {
			if k.Kind == "tools" {
				counts[k.Revision] = k.Hits
			}
		}
		return counts
	}
	before := hits()
	if before[scripted.Modern] < 2 || before[scripted.LatestLegacy] != 0 {
		t.Errorf("hits are %v", before)
	}
	w.Proxy.Reload(caddytest.Directive(w.Host.URL, "name counted", "ttl 7m"))
	if after := hits(); after[scripted.Modern] != before[scripted.Modern] {
		t.Errorf("after a reload, hits are %v, they were %v", after, before)
	}
}

// TestCommandsWithoutHandler runs commands where there is nothing to operate.
func TestCommandsWithoutHandler(t *testing.T) {
	p := caddytest.StartProxy(t, "respond ok")
	if out, complaint := caddytest.Command(t, 4, "status", "--json"); out != "[]\n" || !strings.Contains(complaint, "no mcp_cache handler") {
		t.Errorf("status is %s%s", out, complaint)
	}
	caddytest.Command(t, 1, "list", "tools")
	caddytest.Command(t, 1, "refresh")
	down := fixture.NewDownHost(t, scripted.New())
	p.Reload(caddytest.Directive(down.URL))
	caddytest.Command(t, 4, "status")
	_, complaint := caddytest.Command(t, 1, "refresh")
	if !strings.Contains(complaint, "no feed is connected") {
		t.Errorf("refreshing gave %s", complaint)
	}
	_, complaint, code := caddytest.Run(t, "mcp-cache", "status", "--address", fixture.FreeAddr(t))
	if code != 1 || !strings.Contains(complaint, "is Caddy running? Where it is elsewhere, say so with --address or CADDY_ADMIN") {
		t.Errorf("without an admin API, status ended with %d, %s", code, complaint)
	}
}

// TestCommandsChooseHandler runs commands where there are two handlers.
func TestCommandsChooseHandler(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	w.Proxy = caddytest.StartProxy(t, "handle /a/* {\n"+caddytest.Directive(w.Host.URL, "name one")+"\n}\nhandle {\n"+caddytest.Directive(w.Host.URL, "name two")+"\n}")
	caddytest.AwaitReady(t, "one")
	table, _ := caddytest.Command(t, 0, "status")
	if caddytest.Fields(table, "one") == nil || caddytest.Fields(table, "two") == nil {
		t.Errorf("status is\n%s", table)
	}
	_, complaint := caddytest.Command(t, 1, "list", "tools")
	if want := fmt.Sprintf("choose one with --name: one (%s), two (%[1]s)\n", w.Host.URL); !strings.Contains(complaint, want) {
		t.Errorf("without a name: %s", complaint)
	}
	if table, _ := caddytest.Command(t, 0, "list", "tools", "--name", "two"); caddytest.Fields(table, "item-0000") == nil {
		t.Errorf("the list is\n%s", table)
	}
}

// TestCommandsFindTheAdminAPI looks for its address in configurations, as
// Caddy's own commands do.
func TestCommandsFindTheAdminAPI(t *testing.T) {
	w := caddytest.NewWorld(t)
	w.Warm(scripted.Modern)
	caddytest.AwaitReady(t, "mcp_cache")
	dir := t.TempDir()
	caddyfile := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(caddyfile, []byte("{\n\tadmin "+caddytest.Running.Admin+"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "caddy.json")
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"admin":{"listen":%q}}`, caddytest.Running.Admin), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"the Caddyfile here":   nil,
		"a named Caddyfile":    {"--config", caddyfile, "--adapter", "caddyfile"},
		"a JSON configuration": {"-c", config},
	} {
		where := t.TempDir()
		if args == nil {
			where = dir
		}
		table, complaint, code := caddytest.RunIn(t, where, append([]string{"mcp-cache", "list", "tools"}, args...)...)
		if code != 0 || complaint != "" || caddytest.Fields(table, "item-0000") == nil {
			t.Errorf("with %s: %d, %s%s", name, code, table, complaint)
		}
	}
	bad := t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, "Caddyfile"), []byte("{\n\tadmin "+caddytest.Running.Admin+"\n}\n:0 {\n\tmcp_cache 3001 {\n\t\ttll 5m\n\t}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CADDY_ADMIN", caddytest.Running.Admin)
	const warning = "Warning: the Caddyfile in this folder cannot be read, so the admin API is looked for at "
	table, complaint, code := caddytest.RunIn(t, bad, "mcp-cache", "list", "tools")
	if code != 0 || caddytest.Fields(table, "item-0000") == nil || strings.Count(complaint, "\n") != 1 ||
		!strings.HasPrefix(complaint, warning+caddytest.Running.Admin+": ") || !strings.Contains(complaint, "Caddyfile:5") {
		t.Errorf("with a bad Caddyfile: %d, %s%s", code, table, complaint)
	}
	if _, complaint, code := caddytest.RunIn(t, bad, "mcp-cache", "list", "tools", "--config", "Caddyfile"); code != 1 || strings.Contains(complaint, warning) {
		t.Errorf("with a bad Caddyfile that is named: %d, %s", code, complaint)
	}
	if _, complaint, code := caddytest.Run(t, "mcp-cache", "status", "--config", "/does/not/exist"); code != 1 {
		t.Errorf("without its configuration, status ended with %d, %s", code, complaint)
	}
}

// TestShellCompletion asks for completions as a shell does.
func TestShellCompletion(t *testing.T) {
	w := caddytest.NewWorld(t)
	w.Warm(scripted.Modern)
	caddytest.AwaitReady(t, "mcp_cache")
	for _, c := range []struct{ args, want []string }{
		{[]string{""}, []string{"check", "describe", "list", "purge", "refresh", "serve", "status"}},
		{[]string{"list", ""}, []string{"tools", "prompts", "resources", "resource_templates"}},
		{[]string{"refresh", "d"}, []string{"discover"}},
		{[]string{"describe", "tools", ""}, []string{"item-0000", "item-0001", "item-0002"}},
		{[]string{"status", "--name", ""}, []string{"mcp_cache"}},
	} {
		args := []string{"__complete", "mcp-cache"}
		if len(c.args) > 1 {
			args = append(args, c.args[0], "--address", caddytest.Running.Admin)
			args = append(args, c.args[1:]...)
		} else {
			args = append(args, c.args...)
		}
		out, complaint, code := caddytest.Run(t, args...)
		for _, want := range c.want {
			if !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
				word, _, _ := strings.Cut(line, "\t")
				return word == want
			}) {
				t.Errorf("%q: %d, %s, %s; want %q", args, code, out, complaint, want)
			}
		}
	}
}

// TestManpages has Caddy write its manual pages: ours are among them.
func TestManpages(t *testing.T) {
	dir := t.TempDir()
	if _, complaint, code := caddytest.Run(t, "manpage", "--directory", dir); code != 0 {
		t.Fatalf("writing manual pages: %d, %s", code, complaint)
	}
	for command, says := range map[string]string{
		"status": "Exit codes:", "list": "mcp-cache list KIND [flags]", "describe": "mcp-cache describe KIND ITEM [flags]",
		"refresh": "mcp-cache refresh [KIND] [flags]", "purge": "mcp-cache purge [flags]", "serve": "demo MCP server", "check": "mcp-cache check URL [flags]",
	} {
		page, err := os.ReadFile(filepath.Join(dir, "caddy-mcp-cache-"+command+".8"))
		if text := strings.Join(strings.Fields(string(page)), " "); err != nil || !strings.Contains(text, says) {
			t.Errorf("the page of %s: %v, %.300s", command, err, page)
		}
	}
}
