package operate

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestServeExplainsDefaultHints serves a server with its SDK's default hints by
// its host and port: serve says that nothing is cached and how it would be, and
// suggests no command that would show no hit. With --min-ttl there are hits.
func TestServeExplainsDefaultHints(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.SDKDefault)
	w.SetRevisions(scripted.Modern)
	w.Host.Start()
	to := strings.TrimSuffix(strings.TrimPrefix(w.Host.URL, "http://"), "/mcp")
	p := caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", to)
	if line := p.AwaitLine(t, "Not cached at 2026-07-28: "); line !=
		"tools, prompts, resources, resource_templates: ttlMs is 0, so every request for them goes to the server. With --min-ttl 1m they are kept; clients that keep lists themselves may then miss a change for that minute." {
		t.Errorf("it says that not cached are %s", line)
	}
	p = caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", to, "--min-ttl", "1m")
	p.AwaitLine(t, "Cached at 2026-07-28: tools 3, ")
	p.AwaitLine(t, "# MCP 2026-07-28")
	if _, found := p.Find("# MCP 2025-11-25"); found {
		t.Error("it suggests what the server does not speak")
	}
	for _, line := range p.Lines() {
		if strings.HasPrefix(line, "{") {
			t.Errorf("it speaks JSON to people: %s", line)
		}
	}
	endpoint, _, _ := strings.Cut(p.AwaitLine(t, "mcp_cache is at "), ", ")
	c := fixture.New(t, endpoint, scripted.Modern, "")
	c.Settle(scripted.ToolsList)
	caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1")
}

// TestServeGoesOnWithOneEra serves a server that wants to be left alone in one era: serve
// says what is cached in the other one, how to try it, and what is wrong.
func TestServeGoesOnWithOneEra(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetRevisions("2025-06-18")
	w.SetScript("server/discover", scripted.TooManyRequests(600))
	w.Host.Start()
	p := caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", w.Host.URL)
	p.AwaitLine(t, "Cached at 2025-06-18: tools 3, ")
	p.AwaitLine(t, "# MCP 2025-06-18")
	if line := p.AwaitLine(t, "Trouble: "); line != w.Host.URL+" fails in the modern era (HTTP 429), not in the legacy one: look into the server's log" {
		t.Errorf("it says %s", line)
	}
}

// TestServeSeveral serves two servers and one that is down behind one endpoint: serve says
// what is cached of all, how to try it, and which of them is in trouble.
func TestServeSeveral(t *testing.T) {
	_, one := caddytest.NewMember(t, "one")
	_, two := caddytest.NewMember(t, "two")
	down := fixture.NewDownHost(t, http.NotFoundHandler())
	p := caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0",
		"--to", "one="+one.URL, "--to", "two="+two.URL, "--to", "down="+down.URL)
	endpoint, rest, _ := strings.Cut(p.AwaitLine(t, "mcp_cache is at "), ", ")
	if want := "in front of one at " + one.URL + ", two at " + two.URL + ", down at " + down.URL + "."; rest != want {
		t.Errorf("it says %s, want %s", rest, want)
	}
	hasTools := func() bool {
		return len(fixture.New(t, endpoint, scripted.Modern, "").List(scripted.ToolsList).Items("tools")) == 4
	}
	fixture.Await(t, "the tools of both", hasTools)
	p.AwaitLine(t, "Cached at 2026-07-28: tools 4, ")
	p.AwaitLine(t, "Trouble: nothing listens at "+down.Addr)
	p.AwaitLine(t, "# MCP 2026-07-28")
}

// TestServeNamesAWrongPath serves a path where there is no MCP server, and has
// the log in a file.
func TestServeNamesAWrongPath(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/mcp", scripted.New())
	host := fixture.NewHost(t, mux)
	wrong := strings.TrimSuffix(host.URL, "/mcp") + "/wrong"
	file := filepath.Join(t.TempDir(), "a log.json")
	p := caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", wrong, "--log", file)
	if line := p.AwaitLine(t, "Trouble: "); !strings.HasSuffix(line, "one answers at "+host.URL+": use that URL") {
		t.Errorf("it says %s", line)
	}
	if log, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(log), `{"level":"info"`) {
		t.Errorf("the log is %s, %v", log, err)
	}
}

// TestServeRefusesInOneLine gives serve what it cannot use.
func TestServeRefusesInOneLine(t *testing.T) {
	for says, args := range map[string][]string{
		"--to: the URL has a query":            {"--to", "http://127.0.0.1:1/mcp?key=s3cret"},
		"--to: the URL holds a user":           {"--to", "http://user:s3cret@127.0.0.1:1/mcp"},
		"must have one clean absolute path":    {"--to", "http://127.0.0.1:1/a%7Bb"},
		`--min-ttl: "soon" is no duration`:     {"--to", "127.0.0.1:1", "--min-ttl", "soon"},
		`--min-ttl: "25h" is not from 0 to 24`: {"--to", "127.0.0.1:1", "--min-ttl", "25h"},
		`it has to be like http://127.0.0.1:3001/mcp; --from: "here" is not host:port or :port`: {"--from", "here", "--to", "http://h/?key=s3cret"},
		"with headers, whoever reaches the cache acts with them":                                {"--from", ":0", "-H", "X-A: s3cret"},
		"with --to URL": {"127.0.0.1:1"},
	} {
		out, complaint, code := caddytest.Run(t, append([]string{"mcp-cache", "serve", "--from", "127.0.0.1:0"}, args...)...)
		if code != 1 || out != "" || strings.Contains(complaint, "s3cret") || strings.Contains(complaint, "Caddyfile:") {
			t.Errorf("%q ended with %d: %s%s", args, code, out, complaint)
		}
		caddytest.WantOneLine(t, complaint, says)
	}
}

// TestServeSendsHeaders serves a server that wants a token, with lists that are
// private: clients without one get hits, nobody's own gets through, and no output,
// log or configuration has the token.
func TestServeSendsHeaders(t *testing.T) {
	const token, wanted = "serve-secret-77c1e0", "Bearer serve-secret-77c1e0"
	s := scripted.New()
	for _, method := range scripted.ListMethods() {
		s.SetList(method, scripted.Items(method, "v1", 3))
	}
	s.SetHints(scripted.PrivateHour)
	var closed, others atomic.Bool
	s.SetDoor(func(r *http.Request) int {
		if !slices.Equal(r.Header["Authorization"], []string{wanted}) || !slices.Equal(r.Header["X-Tenant"], []string{"acme"}) {
			others.Store(true)
		}
		return map[bool]int{true: http.StatusUnauthorized}[others.Load() || closed.Load()]
	})
	host := httptest.NewServer(s) // not the fixture's, which finds that credentials cross
	t.Cleanup(func() {
		host.CloseClientConnections()
		host.Close()
	})
	to := host.URL + "/mcp"
	file := filepath.Join(t.TempDir(), "log.json")
	p := caddytest.StartProcess(t, []string{"MCP_CACHE_TEST_TOKEN=" + token, "XDG_DATA_HOME=" + t.TempDir()},
		"mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", to, "--log", file,
		"--header", "Authorization: Bearer {env.MCP_CACHE_TEST_TOKEN}", "-H", "x-tenant: acme")
	p.AwaitLine(t, "Cached at 2025-11-25: tools 3, ")
	endpoint, _, _ := strings.Cut(p.AwaitLine(t, "mcp_cache is at "), ", ")
	if line := p.AwaitLine(t, "Each request to the server carries the "); line != "Authorization, X-Tenant that you have given: whoever reaches the cache acts with that." {
		t.Errorf("it says that it carries the %s", line)
	}
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		for _, own := range []string{"", "Bearer of-the-client"} {
			c := fixture.New(t, endpoint, revision, own)
			c.Settle(scripted.ToolsList)
			caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1")
			c.Call("tools/call", c.Params(`"name":"item-0000"`))
		}
	})
	if others.Load() {
		t.Error("a request had other headers")
	}
	for _, path := range []string{"/mcp", "/MCP", "//mcp", "/api/me"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(endpoint, "/mcp")+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "http://evil.example")
		res, err := fixture.HTTPClient(t, "page", "").Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("a foreign page got %d at %s", res.StatusCode, path)
		}
	}
	s.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		x.Error(http.StatusOK, -32603, "what are you doing here, "+x.R.Header.Get("Authorization")+"?")
	})
	address, _, _ := strings.Cut(strings.TrimSuffix(p.AwaitLine(t, "Caddy's admin API is at "), "."), ". ")
	refreshing, complaint, code := caddytest.Run(t, "mcp-cache", "refresh", "--address", address)
	if code != 5 || !strings.Contains(refreshing, "what are you doing here") {
		t.Errorf("refreshing ended with %d: %s%s", code, refreshing, complaint)
	}
	p.AwaitLine(t, "Feeds: 2025-11-25 degraded (")
	closed.Store(true)
	if _, complaint, code := caddytest.Run(t, "mcp-cache", "refresh", "--address", address); code != 5 {
		t.Errorf("refreshing ended with %d: %s", code, complaint)
	}
	p.AwaitLine(t, "Trouble: "+to+" does not accept these credentials (401)")
	res, err := http.Get("http://" + address + "/config/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	config, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(config), "{env.MCP_CACHE_SERVE_1}") {
		t.Errorf("the configuration is %s, %v", config, err)
	}
	log, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"output": strings.Join(p.Lines(), "\n"), "complaints": p.Complaints(), "log": string(log),
		"configuration": string(config), "refresh": refreshing,
	} {
		if strings.Contains(text, token) || strings.Contains(text, "acme") {
			t.Errorf("the %s repeats the token: %s", name, text)
		}
	}
}

// TestServeSuggestsHits runs the commands that serve prints, in a shell: the
// second list of each era is a hit.
func TestServeSuggestsHits(t *testing.T) {
	for _, program := range []string{"sh", "curl", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the commands need %s", program)
		}
	}
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := caddytest.NewUpstream(t)
		w.SetRevisions(revision)
		w.Host.Start()
		p := caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", w.Host.URL)
		p.AwaitLine(t, "echo; done")
		_, script, _ := strings.Cut(strings.Join(p.Lines(), "\n"), "\n# MCP "+revision)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "#"+script).Output()
		if err != nil || strings.Count(string(out), "mcp_cache; hit") == 0 || strings.Count(string(out), "HTTP/1.1 200 OK") != 2 {
			t.Errorf("%v: the commands give\n%s", err, out)
		}
	})
}
