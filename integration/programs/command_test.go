package programs

import (
	"net/http"
	"os"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestProgramsThatAreMissing configures what is not there: a warning at load, and an error to
// clients, both of which name it. Once it is installed, it is used.
func TestProgramsThatAreMissing(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t)
	missing := filepath.Join(t.TempDir(), "server")
	for name, tt := range map[string]struct {
		command []string
		option  string
		reason  string
	}{
		"program":   {[]string{missing}, "", "finding program " + missing + ": no such file or directory"},
		"name":      {[]string{"no-such-server"}, "", "finding program no-such-server: executable file not found in $PATH"},
		"directory": {command, "dir " + missing, "finding directory " + missing + ": no such file or directory"},
		"user":      {command, "user nobody-at-all", "there is no user nobody-at-all"},
		"secret":    {command, "env TOKEN {file." + missing + "}", "env TOKEN: "},
	} {
		t.Run(name, func(t *testing.T) {
			p := caddytest.StartProxy(t, caddytest.ProgramUpstream(tt.command, tt.option))
			if log := p.Log(); !strings.Contains(log, "program cannot be started now") || !strings.Contains(log, tt.reason) {
				t.Error("it is not said when the configuration is loaded")
			}
			a := helloTo(t, p)
			if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(string(a.Body), tt.reason) {
				t.Errorf("a client is answered %s", a)
			}
		})
	}
	t.Run("installed later", func(t *testing.T) {
		p := caddytest.StartProxy(t, caddytest.ProgramUpstream(append([]string{missing}, command[1:]...)))
		if a := helloTo(t, p); a.Status != http.StatusServiceUnavailable {
			t.Fatalf("a client is answered %s", a)
		}
		if err := os.Symlink(command[0], missing); err != nil {
			t.Fatal(err)
		}
		fixture.Await(t, "the program to be tried again", func() bool { return helloTo(t, p).Status == http.StatusOK })
	})
}

// helloTo opens a session, or tries to.
func helloTo(t testing.TB, p *caddytest.Proxy) *fixture.Answer {
	t.Helper()
	return fixture.NewModern(t, p.URL, "").Post(caddytest.ProgramHello, http.Header{"Mcp-Protocol-Version": nil})
}

// TestProgramsEnvironment gives a program what is configured of its environment, and nothing
// else of Caddy's.
func TestProgramsEnvironment(t *testing.T) {
	t.Setenv("CANARY", "must not arrive")
	t.Setenv("PASSED", "as it is")
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	command, _ := caddytest.MisbehavingProgram(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := caddytest.StartProxy(t, caddytest.ProgramUpstream(command,
		"env TOKEN {file."+secret+"}", `env TEXT "{\"a\": {b}}"`, "pass_env PASSED UNSET", "dir "+dir))
	c := fixture.New(t, p.URL, scripted.LatestLegacy, "")
	got := strings.Split(callProgram(c, "env").Text(), "\n")
	for _, want := range []string{"TOKEN=s3cret", `TEXT={"a": {b}}`, "PASSED=as it is", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no %s", want)
		}
	}
	for _, variable := range got {
		if strings.HasPrefix(variable, "CANARY") || strings.HasPrefix(variable, "UNSET") {
			t.Errorf("there is %s", variable)
		}
	}
	if got := callProgram(c, "dir").Text(); got != dir {
		t.Errorf("it runs in %s, want %s", got, dir)
	}
	if strings.Contains(p.Log(), "s3cret") {
		t.Error("the secret is logged")
	}
}

// TestProgramsUser runs a program as another user, if the tests may.
func TestProgramsUser(t *testing.T) {
	nobody, err := osuser.Lookup("nobody")
	if os.Getuid() != 0 || err != nil {
		t.Skip("needs root, and a user nobody")
	}
	// The program has to be where others may look. TMPDIR may be ours alone.
	dir, err := os.MkdirTemp("/tmp", "mcp-cache-integration-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	command, _ := caddytest.MisbehavingProgram(t)
	content, err := os.ReadFile(command[0])
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, content, 0o755); err != nil {
		t.Fatal(err)
	}
	p := caddytest.StartProxy(t, caddytest.ProgramUpstream([]string{program, command[1]}, "user nobody"))
	c := fixture.New(t, p.URL, scripted.LatestLegacy, "")
	if got, want := callProgram(c, "user").Text(), nobody.Uid+" "+nobody.HomeDir+" nobody"; got != want {
		t.Errorf("it runs as %q, want %q", got, want)
	}
}
