package programs

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/programtest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// callProgram calls a tool of the program that misbehaves on demand.
func callProgram(c *fixture.Raw, tool string) *fixture.Answer {
	return c.Call("tools/call", c.Params(`"name":"`+tool+`","arguments":{}`))
}

// TestProgramsOfSDKs has clients of both SDKs use programs of both: everything works, in plain
// Caddy and behind the cache.
func TestProgramsOfSDKs(t *testing.T) {
	for sdk, command := range fixture.Programs() {
		for way, site := range map[string]func(string) string{
			"plain":    func(upstream string) string { return upstream },
			"in front": func(upstream string) string { return "mcp_cache {\n" + upstream + "\n}" },
		} {
			t.Run(sdk+" "+way, func(t *testing.T) {
				s := fixture.NewProgram(sdk)
				p := caddytest.StartProxy(t, site(caddytest.ProgramUpstream(command)))
				for _, revision := range s.Revisions {
					for client, connect := range fixture.SDKClients() {
						t.Run(client+" at "+revision, func(t *testing.T) {
							c := connect(t, p.URL, revision)
							s.UseAll(t, c, revision)
						})
					}
				}
			})
		}
	}
}

// TestProgramsAreListedFromMemory has programs of each era behind the cache: no list of a client
// reaches one once it is known, and what a process of all says of a change is heard.
func TestProgramsAreListedFromMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		traits            []string
		options, revision string
		processes         int
	}{
		// The feed's session and the client's have a process each.
		"with sessions": {nil, "", scripted.LatestLegacy, 2},
		"shared":        {nil, "share", scripted.LatestLegacy, 1},
		"modern":        {[]string{"modern"}, "", scripted.Modern, 1},
		"modern, said":  {[]string{"dual"}, "era modern", scripted.Modern, 1},
	} {
		t.Run(name, func(t *testing.T) {
			command, dir := caddytest.MisbehavingProgram(t, tt.traits...)
			p := caddytest.StartProxy(t, "mcp_cache {\nkinds tools\n"+caddytest.ProgramUpstream(command, tt.options)+"\n}")
			c := fixture.New(t, p.URL, tt.revision, "")
			c.Settle(scripted.ToolsList)
			a := c.List(scripted.ToolsList)
			want := `{"name":"echo","inputSchema":{"type":"object"},"x":12345678901234567890}`
			if items := a.Items("tools"); !a.CacheStatus().Hit || len(items) != 1 || items[0] != want {
				t.Errorf("got %q, %s", items, a)
			}
			fixture.Await(t, "the processes that were only asked have ended", func() bool {
				return len(programtest.Running(t, dir)) == tt.processes
			})
			if tt.processes > 1 {
				return // the client's process does not tell what changes in another
			}
			callProgram(c, "change")
			changed := strings.Replace(want, "7890}", "7891}", 1)
			fixture.Await(t, "the change is heard", func() bool {
				a := c.List(scripted.ToolsList)
				items := a.Items("tools")
				return a.CacheStatus().Hit && len(items) == 1 && items[0] == changed
			})
		})
	}
}

// TestReloadsKeepPrograms reloads with the same command: processes and sessions go on, also
// behind a cache. With another command, they end.
func TestReloadsKeepPrograms(t *testing.T) {
	command, dir := caddytest.MisbehavingProgram(t)
	p := caddytest.StartProxy(t, caddytest.ProgramUpstream(command))
	c := fixture.New(t, p.URL, scripted.LatestLegacy, "")
	pid := callProgram(c, "pid").Text()
	waiting := c.Stream("POST", fixture.Message(c.NextID(), "tools/call", `{"name":"ask","arguments":{}}`), nil)
	waiting.Await("sampling/createMessage")
	for n := range caddytest.Pick(5, 100) {
		p.Reload(caddytest.ProgramUpstream(command, "max "+strconv.Itoa(10+n)))
		if got := callProgram(c, "pid").Text(); got != pid {
			t.Fatalf("after reload %d the process is %s, it was %s", n, got, pid)
		}
	}
	c.Post(`{"jsonrpc":"2.0","id":1,"result":{"kept":true}}`, nil)
	if e, ok := waiting.Next(); !ok || !strings.Contains(e.Data, "kept") {
		t.Errorf("a call under way is answered %q", e.Data)
	}
	t.Setenv("MCP_CACHE_TEST_ACCOUNT", "alice")
	p.Reload(caddytest.ProgramUpstream(command, "pass_env MCP_CACHE_TEST_ACCOUNT"))
	c = fixture.New(t, p.URL, scripted.LatestLegacy, "")
	callProgram(c, "pid")
	t.Setenv("MCP_CACHE_TEST_ACCOUNT", "bob") // for whom no process of Alice may go on
	p.Reload(caddytest.ProgramUpstream(command, "max 3", "pass_env MCP_CACHE_TEST_ACCOUNT"))
	if a := callProgram(c, "pid"); a.Status != 404 {
		t.Errorf("a session with another account's process is answered %s", a)
	}
	p.Reload(caddytest.ProgramUpstream(append(command, "another")))
	fixture.Await(t, "the processes of the command that is gone end", func() bool { return len(programtest.Running(t, dir)) == 0 })
	if a := callProgram(c, "pid"); a.Status != 404 {
		t.Errorf("a session of a program that is gone is answered %s", a)
	}
}

// TestProgramsEndWithCaddy stops a Caddy whose programs do not want to end, with sessions that
// were dropped: nothing is left of them, nor of what they have started.
func TestProgramsEndWithCaddy(t *testing.T) {
	for name, end := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			traits := []string{"forks", t.TempDir(), "stubborn"}
			if end == syscall.SIGKILL {
				traits[2] = "deaf" // what ignores SIGTERM, too, runs on
			}
			command, dir := caddytest.MisbehavingProgram(t, traits...)
			addr := fixture.FreeAddr(t)
			file := filepath.Join(t.TempDir(), "Caddyfile")
			config := fmt.Sprintf("{\n\tadmin off\n\tgrace_period 10s\n}\nhttp://%s {\n\t%s\n}\n", addr, caddytest.ProgramUpstream(command, "max 1000"))
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			caddy := caddytest.StartProcess(t, nil, "run", "--config", file)
			fixture.Await(t, "Caddy to listen", func() bool {
				conn, err := net.Dial("tcp", addr)
				if err == nil {
					conn.Close()
				}
				return err == nil
			})
			sessions := caddytest.Pick(20, 200)
			var streams []*fixture.Stream
			for range sessions {
				c := fixture.New(t, "http://"+addr+"/mcp", scripted.LatestLegacy, "")
				callProgram(c, "pid")
				streams = append(streams, c.Notices())
			}
			if n := len(programtest.Running(t, dir)); n != sessions {
				t.Errorf("%d processes run for %d sessions", n, sessions)
			}
			if err := syscall.Kill(caddy.PID, end); err != nil {
				t.Fatal(err)
			}
			fixture.Await(t, "all programs to end", func() bool { return len(programtest.Running(t, dir)) == 0 })
			if end == syscall.SIGTERM {
				fixture.Await(t, "all that they have started to end", func() bool { return len(programtest.Running(t, traits[1])) == 0 })
			} else {
				for _, pid := range programtest.Running(t, traits[1]) { // nobody is there to end them
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			for _, stream := range streams {
				stream.AwaitEnd()
			}
		})
	}
}

// TestDroppedSessionsLeaveNothing opens sessions with a program that does not want to end, and drops
// them: nothing is left of their processes, nor of what these have started.
func TestDroppedSessionsLeaveNothing(t *testing.T) {
	children := t.TempDir()
	command, dir := caddytest.MisbehavingProgram(t, "forks", children, "stubborn")
	p := caddytest.StartProxy(t, caddytest.ProgramUpstream(command, "max 1000", "idle 100ms", "stop_grace 100ms"))
	sessions := caddytest.Pick(20, 200)
	for range sessions {
		callProgram(fixture.New(t, p.URL, scripted.LatestLegacy, ""), "pid")
	}
	fixture.Await(t, "all processes to end", func() bool { return len(programtest.Running(t, dir)) == 0 })
	fixture.Await(t, "all that they have started to end", func() bool { return len(programtest.Running(t, children)) == 0 })
	if n := len(programtest.Started(t, children)); n < sessions {
		t.Errorf("%d processes were started for %d sessions", n, sessions)
	}
}

// takeAway takes a program away, whose processes make files in the directory, until calls of a client
// fail for that.
func takeAway(t *testing.T, program, dir string, c *fixture.Raw) {
	t.Helper()
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "no process answers any more", func() bool {
		for _, pid := range programtest.Running(t, dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return strings.Contains(string(callProgram(c, "echo").Message()), "did not start")
	})
}

// TestListsOutlivePrograms has a program taken away. A session whose calls fail then is still
// answered its lists from memory, at once and after the next call.
func TestListsOutlivePrograms(t *testing.T) {
	command, dir := caddytest.MisbehavingProgram(t)
	program := filepath.Join(t.TempDir(), "program")
	if err := os.Symlink(command[0], program); err != nil {
		t.Fatal(err)
	}
	command[0] = program
	p := caddytest.StartProxy(t, "mcp_cache {\nkinds tools\n"+caddytest.ProgramUpstream(command)+"\n}")
	c := fixture.New(t, p.URL, scripted.LatestLegacy, "")
	c.Settle(scripted.ToolsList)
	takeAway(t, program, dir, c)
	for range 3 {
		failed := callProgram(c, "echo")
		if text := string(failed.Message()); failed.Status != 200 || !strings.Contains(text, "did not start") {
			t.Fatalf("a call is answered %s", failed)
		}
		if a := c.List(scripted.ToolsList); a.Status != 200 || len(a.Items("tools")) != 1 {
			t.Errorf("a list is answered %s", a)
		}
	}
}

// TestProgramAmongServers has a program as one of several servers: clients of both eras use it.
func TestProgramAmongServers(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t)
	p := caddytest.StartProxy(t, "mcp_cache {\nserver files {\n"+caddytest.ProgramUpstream(command)+"\n}\nserver others {\n"+
		caddytest.ProgramUpstream(fixture.Programs()["go-sdk"])+"\n}\n}")
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "")
		fixture.Await(t, "the tools of both", func() bool { return len(c.List(scripted.ToolsList).Items("tools")) == 4 })
		if got := c.Call("tools/call", c.Params(`"name":"files__echo","arguments":{"text":"there"}`)).Text(); got != "there" {
			t.Errorf("%s: the program says %q", revision, got)
		}
	}
}

// TestMemoryOfMessages has a program answer more than there is memory for, in every way to use one and in
// both eras: the call has an error, and nothing else happens.
func TestMemoryOfMessages(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t)
	narrow, own := "memory 1MiB", caddytest.ProgramUpstream(command, "memory 8MiB")
	for name, tt := range map[string]struct {
		site string
		fits bool
	}{
		"plain":                   {caddytest.ProgramUpstream(command, narrow), false},
		"in front":                {"mcp_cache {\nadmit all\n" + narrow + "\n" + caddytest.ProgramUpstream(command) + "\n}", false},
		"several":                 {"mcp_cache {\nadmit all\n" + narrow + "\nserver files {\n" + caddytest.ProgramUpstream(command) + "\n}\nserver others {\n" + own + "\n}\n}", false},
		"plain, more memory":      {caddytest.ProgramUpstream(command), true},
		"in front, its own":       {"mcp_cache {\nadmit all\n" + narrow + "\n" + own + "\n}", true},
		"several, more memory":    {"mcp_cache {\nadmit all\nserver files {\n" + caddytest.ProgramUpstream(command) + "\n}\n}", true},
		"several, one of its own": {"mcp_cache {\nadmit all\n" + narrow + "\nserver files {\n" + own + "\n}\n}", true},
	} {
		t.Run(name, func(t *testing.T) {
			for revision, trait := range map[string]string{scripted.LatestLegacy: "", scripted.Modern: "modern"} {
				p := caddytest.StartProxy(t, strings.ReplaceAll(tt.site, `"pids"`, strconv.Quote(trait)+` "pids"`))
				c := fixture.New(t, p.URL, revision, "")
				tool := "echo"
				if strings.HasPrefix(name, "several") {
					tool = "files__echo"
					fixture.Await(t, "the tools", func() bool { return len(c.List(scripted.ToolsList).Items("tools")) > 0 })
				}
				call := func(arguments string) *fixture.Answer {
					return c.Call("tools/call", c.Params(`"name":"`+tool+`","arguments":`+arguments))
				}
				if large := call(`{"size":1000000}`); tt.fits != (len(large.Text()) == 1_000_000) || tt.fits == strings.Contains(string(large.Message()), "with more than 768 KiB") {
					t.Errorf("%s: a large answer is %.300s", revision, large.Message())
				}
				if small := call(`{"text":"there"}`).Text(); small != "there" {
					t.Errorf("%s: then a small one is %q", revision, small)
				}
			}
		})
	}
}

// TestProgramsRefuseForeignPages has pages of other origins refused in plain Caddy; behind the
// cache, its option origins says which are let in. Names that lead to this machine are refused at all paths.
func TestProgramsRefuseForeignPages(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t)
	plain := caddytest.ProgramUpstream(command)
	for site, want := range map[string]int{
		plain:                           http.StatusForbidden,
		"mcp_cache {\n" + plain + "\n}": http.StatusForbidden,
		"mcp_cache {\norigins https://page.example\n" + plain + "\n}":                              http.StatusOK,
		"mcp_cache {\nserver files {\n" + plain + "\n}\n}":                                         http.StatusForbidden,
		"mcp_cache {\norigins https://page.example\nserver files {\n" + plain + "\n}\n}\n" + plain: http.StatusOK,
	} {
		p := caddytest.StartProxy(t, site)
		a := fixture.NewModern(t, p.URL, "").Post(caddytest.ProgramHello, http.Header{"Mcp-Protocol-Version": nil, "Origin": {"https://page.example"}})
		if a.Status != want {
			t.Errorf("a page of another origin is answered %s, want %d, by\n%s", a, want, site)
		}
		if a := helloTo(t, p); a.Status != http.StatusOK {
			t.Errorf("a client is answered %s", a)
		}
		for _, path := range []string{"", "/other"} {
			a = fixture.NewModern(t, p.URL+path, "").Post(caddytest.ProgramHello, http.Header{"Mcp-Protocol-Version": nil, "Host": {"rebound.example"}})
			if a.Status != http.StatusForbidden {
				t.Errorf("at %s, a page that has had its name resolve to this machine is answered %s, by\n%s", path, a, site)
			}
		}
	}
}
