package programs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/programtest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// shownProgram is what the status says of a handler in front of a program.
type shownProgram struct {
	Upstream string
	Program  struct {
		Era       string
		Sessions  int
		Failed    int                      `json:"failed_starts"`
		Failure   struct{ Message string } `json:"start_failure"`
		Processes []struct{ PID int }
	}
}

// showProgram returns that of the handler of that name.
func showProgram(t *testing.T, name string) shownProgram {
	t.Helper()
	stdout, _, _ := caddytest.Run(t, "mcp-cache", "status", "--json", "--name", name, "--address", caddytest.Running.Admin)
	var shown []shownProgram
	if err := json.Unmarshal([]byte(stdout), &shown); err != nil || len(shown) != 1 {
		t.Fatalf("the status of %s is %s", name, stdout)
	}
	return shown[0]
}

// TestProgramsAreRestarted: commands show the programs among several servers, and restart them. An
// update is listed then, and the session of a client goes on.
func TestProgramsAreRestarted(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	grown := filepath.Join(t.TempDir(), "grown")
	command, dir := caddytest.MisbehavingProgram(t, "grows", grown)
	_, other := caddytest.NewMember(t, "other")
	p := caddytest.StartProxy(t, "mcp_cache {\nserver files {\nkinds tools\n"+caddytest.ProgramUpstream(command, "env TOKEN {file."+secret+"}")+"\n}\n"+
		"server other "+other.URL+"\n}")
	caddytest.AwaitReady(t, "mcp_cache/files")
	c := fixture.New(t, p.URL, scripted.LatestLegacy, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 3)
	call := func() string { return c.Call("tools/call", c.Params(`"name":"files__pid","arguments":{}`)).Text() }
	pid := call()

	shown := showProgram(t, "mcp_cache/files")
	if !strings.HasPrefix(shown.Upstream, "stdio "+command[0]+" ") || strings.Contains(shown.Upstream, "env") {
		t.Errorf("it is shown in front of %s", shown.Upstream)
	}
	if program := shown.Program; program.Era != "legacy" || program.Sessions < 1 || len(program.Processes) != len(programtest.Running(t, dir)) {
		t.Errorf("its program is shown as %+v", program)
	}
	if out, _ := caddytest.Command(t, 0, "status"); !strings.Contains(out, "in front of "+shown.Upstream) || !strings.Contains(out, "\n"+pid+" ") || strings.Contains(out, "s3cret") {
		t.Errorf("status printed\n%s", out)
	}
	if n := caddytest.Metric(t, `program_processes{handler="mcp_cache/files"}`); int(n) != len(shown.Program.Processes) {
		t.Errorf("%v processes are counted", n)
	}

	if err := os.WriteFile(grown, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := caddytest.Command(t, 0, "restart", "mcp_cache/files")
	if !strings.HasPrefix(out, "mcp_cache/files: processes stopped: ") || strings.Contains(out, "stopped: 0") {
		t.Errorf("restart printed %s", out)
	}
	fixture.Await(t, "the tool that the update has brought", func() bool { return len(c.List(scripted.ToolsList).Items("tools")) == 4 })
	if now := call(); now == pid || now == "" {
		t.Errorf("the client is answered by process %q, before it was %q", now, pid)
	}
	if out, _ = caddytest.Command(t, 0, "restart", "--json"); !strings.Contains(out, `"mcp_cache/files"`) || strings.Contains(out, "other") {
		t.Errorf("the restart of all programs printed %s", out)
	}
	for _, run := range []struct {
		args []string
		want string
	}{
		{[]string{"restart", "mcp_cache/other"}, "mcp_cache/other is in front of no program: there is nothing to restart"},
		{[]string{"restart", "files"}, `no handler is called "files"; there are: mcp_cache, mcp_cache/files, mcp_cache/other`},
		{[]string{"restart", "a", "--name", "b"}, "two handlers are named, a and b: name one"},
		{[]string{"restart", "a", "b"}, "there is an argument too many: name one handler or none"},
	} {
		if _, text := caddytest.Command(t, 1, run.args...); !strings.Contains(text, run.want) {
			t.Errorf("%q: %s", run.args, text)
		}
	}
}

// TestProgramsThatDoNotStartAreShown: the status says why, by its exit code as well, for a program
// that never started and for one that was taken away. Once it is there, a restart has it tried at
// once.
func TestProgramsThatDoNotStartAreShown(t *testing.T) {
	command, dir := caddytest.MisbehavingProgram(t)
	program := filepath.Join(t.TempDir(), "server")
	path := command[0]
	command[0] = program
	reason := "program tested did not start: finding program " + program + ": no such file or directory"
	p := caddytest.StartProxy(t, "mcp_cache {\nkinds tools\n"+caddytest.ProgramUpstream(command)+"\n}")
	shown := func(code int, headline string) bool {
		stdout, stderr, got := caddytest.Run(t, "mcp-cache", "status", "--address", caddytest.Running.Admin)
		return got == code && strings.Contains(stderr, headline) && strings.Contains(stdout, "\n"+reason+", ")
	}
	fixture.Await(t, "the status says why there are no lists", func() bool { return shown(4, "is not ready: it is down") })
	if first := showProgram(t, "mcp_cache").Program; first.Failed == 0 || first.Failure.Message != reason {
		t.Errorf("its program is shown as %+v", first)
	}
	if err := os.Symlink(path, program); err != nil {
		t.Fatal(err)
	}
	caddytest.Command(t, 0, "restart", "mcp_cache")
	caddytest.AwaitReady(t, "mcp_cache")
	c := fixture.New(t, p.URL, scripted.LatestLegacy, "")
	c.Settle(scripted.ToolsList)

	takeAway(t, program, dir, c)
	if !shown(5, "") {
		stdout, stderr, code := caddytest.Run(t, "mcp-cache", "status", "--address", caddytest.Running.Admin)
		t.Errorf("status ends with %d: %s\n%s", code, stderr, stdout)
	}
	if a := c.List(scripted.ToolsList); len(a.Items("tools")) != 1 {
		t.Errorf("a list is answered %s", a)
	}
}

// TestWhoUsesProgramsIsSaid: a handler warns at load if everybody who reaches it uses a program, unless
// it is said who lets callers in.
func TestWhoUsesProgramsIsSaid(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t)
	_, other := caddytest.NewMember(t, "other", "authorization forward")
	alone, among := caddytest.ProgramUpstream(command), "server files {\n"+caddytest.ProgramUpstream(command)+"\n}\n"
	for name, tt := range map[string]struct {
		site string
		warn string
	}{
		"alone":               {"mcp_cache {\nname mine\n" + alone + "\n}", `["mine"]`},
		"alone, said":         {"mcp_cache {\nadmit all\n" + alone + "\n}", ""},
		"among servers":       {"mcp_cache {\n" + among + "server more {\n" + alone + "\n}\n}", `["files","more"]`},
		"among servers, said": {"mcp_cache {\nadmit all\n" + among + "}", ""},
		"behind a door":       {"mcp_cache {\n" + among + "server other " + other.URL + " {\nauthorization forward\n}\n}", ""},
		"a server at an URL":  {"mcp_cache " + other.URL, ""},
		"in plain Caddy":      {alone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			log := caddytest.StartProxy(t, tt.site).Log()
			at := strings.Index(log, "whoever reaches this handler uses the program")
			if (at >= 0) != (tt.warn != "") {
				t.Fatalf("a warning: %t", at >= 0)
			}
			if line, _, _ := strings.Cut(log[max(at, 0):], "\n"); !strings.Contains(line, tt.warn) {
				t.Errorf("it warns: %s", line)
			}
		})
	}
}
