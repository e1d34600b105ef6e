package programs

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// inShell writes a command as one would in a shell.
func inShell(command []string) string { return "'" + strings.Join(command, "' '") + "'" }

// TestServeProgram serves a program by its command: its lists come from memory, its tools are
// called, and it runs in the directory in which serve was started.
func TestServeProgram(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t)
	p := caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", inShell(command))
	endpoint, rest, _ := strings.Cut(p.AwaitLine(t, "mcp_cache is at "), ", ")
	if want := "in front of the program " + filepath.Base(command[0]) + "."; rest != want {
		t.Errorf("it says %s, want %s", rest, want)
	}
	p.AwaitLine(t, "Cached at 2025-11-25: tools 1.")
	p.AwaitLine(t, "# MCP 2025-11-25")
	c := fixture.New(t, endpoint, scripted.LatestLegacy, "")
	c.Settle(scripted.ToolsList)
	if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit || len(a.Items("tools")) != 1 {
		t.Errorf("got %s", a)
	}
	here, err := os.Readlink("/proc/" + strconv.Itoa(p.PID) + "/cwd")
	if err != nil {
		t.Skip("where it runs can be seen on Linux alone")
	}
	if dir := callProgram(c, "dir").Text(); dir != here {
		t.Errorf("it runs in %s, want %s", dir, here)
	}
}

// TestServeProgramThatFails serves programs that end, or are not there: serve says so, and the
// log has what they have complained of.
func TestServeProgramThatFails(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t, "exits")
	p := caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", "ends="+inShell(command), "--to", "missing=/no/such/program x")
	for name, why := range map[string]string{
		"ends":    "it ended while it started (exit status 3)",
		"missing": "finding program /no/such/program: no such file or directory",
	} {
		want := why + ". What it wrote to standard error is in the log, standard error"
		if says := p.AwaitLine(t, "Trouble: "+name+" cannot be used: program "+name+" did not start: "); says != want {
			t.Errorf("of %s it says %s", name, says)
		}
	}
	if strings.Contains(p.Complaints(), "admit all") {
		t.Errorf("serve sets admit all itself, and the log warns all the same: %s", p.Complaints())
	}
	for _, want := range []string{`"standard_error": "cannot find the database"`, "finding program /no/such/program: no such file or directory"} {
		if !strings.Contains(p.Complaints(), want) {
			t.Errorf("there is no %s in %s", want, p.Complaints())
		}
	}
}

// TestServeMCPConfig serves what a file of clients has: a program with its environment, and two
// servers of which each is sent its own headers. What is printed for that file serves the same.
func TestServeMCPConfig(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t)
	urls := make(map[string]string)
	wants := map[string]string{"one": "Bearer s3cret-one", "two": "s3cret-two"}
	for name, want := range wants {
		s := scripted.New()
		s.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "v1", 2))
		s.SetDoor(func(r *http.Request) int {
			return map[bool]int{true: http.StatusUnauthorized}[!slices.Equal(r.Header["Authorization"], []string{want})]
		})
		host := httptest.NewServer(s) // not the fixture's, which finds that credentials cross
		t.Cleanup(func() {
			host.CloseClientConnections()
			host.Close()
		})
		urls[name] = host.URL + "/mcp"
	}
	file := filepath.Join(t.TempDir(), "mcp.json")
	content, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"A Program": map[string]any{"command": command[0], "args": command[1:], "env": map[string]string{"TOKEN": "s3cret-${MCP_CACHE_TEST_NAME}", "TEXT": `{"a": {b}}`}},
		"one":       map[string]any{"url": urls["one"], "headers": map[string]string{"Authorization": "Bearer s3cret-${MCP_CACHE_TEST_NAME}"}},
		"two":       map[string]any{"type": "http", "url": urls["two"], "headers": map[string]string{"Authorization": "s3cret-two"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"MCP_CACHE_TEST_NAME=one", "XDG_DATA_HOME=" + t.TempDir()}
	check := func(t *testing.T, endpoint string) {
		c := fixture.New(t, endpoint, scripted.LatestLegacy, "")
		fixture.Await(t, "the tools of all", func() bool { return len(c.List(scripted.ToolsList).Items("tools")) == 5 })
		got := strings.Split(c.Call("tools/call", c.Params(`"name":"a-program__env","arguments":{}`)).Text(), "\n")
		for _, want := range []string{"TOKEN=s3cret-one", `TEXT={"a": {b}}`} {
			if !slices.Contains(got, want) {
				t.Errorf("the program has no %s", want)
			}
		}
	}

	t.Run("serve", func(t *testing.T) {
		p := caddytest.StartProcess(t, env, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--mcp-config", file)
		endpoint, _, _ := strings.Cut(p.AwaitLine(t, "mcp_cache is at "), ", ")
		check(t, endpoint)
		address, _, _ := strings.Cut(strings.TrimSuffix(p.AwaitLine(t, "Caddy's admin API is at "), "."), ". ")
		res, err := http.Get("http://" + address + "/config/")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		config, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if said := string(config) + strings.Join(p.Lines(), "\n") + p.Complaints(); strings.Contains(said, "s3cret") {
			t.Errorf("it shows a secret: %s", said)
		}
	})
	t.Run("print", func(t *testing.T) {
		printed, complaint, code := caddytest.Run(t, "mcp-cache", "serve", "--from", fixture.FreeAddr(t), "--mcp-config", file, "--print")
		if code != 0 || complaint != "" {
			t.Fatalf("it ended with %d: %s", code, complaint)
		}
		if !strings.Contains(printed, "{env.MCP_CACHE_TEST_NAME}") {
			t.Errorf("it prints\n%s", printed)
		}
		site, caddyfile := strings.Split(printed, "\n"), filepath.Join(t.TempDir(), "Caddyfile")
		port := strings.TrimSuffix(strings.TrimPrefix(site[0], "http://:"), " {")
		if err := os.WriteFile(caddyfile, fmt.Appendf(nil, "{\n\tadmin off\n}\n\n%s", printed), 0o600); err != nil {
			t.Fatal(err)
		}
		caddytest.StartProcess(t, env, "run", "--config", caddyfile)
		fixture.Await(t, "somebody listens", func() bool {
			res, err := http.Get("http://127.0.0.1:" + port + "/")
			if err == nil {
				_ = res.Body.Close()
			}
			return err == nil
		})
		check(t, "http://127.0.0.1:"+port+"/mcp")
	})
}

// TestProgramsByCommand names programs by their commands in the directive: one that stands alone,
// with its options, and those of a toolkit.
func TestProgramsByCommand(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t)
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = strconv.Quote(word)
	}
	stdio := "stdio " + strings.Join(words, " ")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := caddytest.StartProxy(t, "mcp_cache "+stdio+" {\nname files\nstdio {\ndir "+dir+"\n}\n}")
	c := fixture.New(t, p.URL, scripted.LatestLegacy, "")
	c.Settle(scripted.ToolsList)
	if got := callProgram(c, "dir").Text(); got != dir {
		t.Errorf("it runs in %s, want %s", got, dir)
	}
	if !strings.Contains(p.Log(), `"program":"files"`) {
		t.Error("no line of the log has the program's name")
	}
	p = caddytest.StartProxy(t, "mcp_cache {\nserver one "+stdio+"\nserver two "+stdio+" {\nstdio {\nenv X y\n}\n}\n}")
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "")
		fixture.Await(t, "the tools of both", func() bool { return len(c.List(scripted.ToolsList).Items("tools")) == 2 })
		for name, want := range map[string]bool{"one": false, "two": true} {
			env := c.Call("tools/call", c.Params(`"name":"`+name+`__env","arguments":{}`)).Text()
			if got := slices.Contains(strings.Split(env, "\n"), "X=y"); got != want {
				t.Errorf("%s: %s has X=y: %t", revision, name, got)
			}
		}
	}
}
