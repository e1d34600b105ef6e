package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// asCaddy makes the test binary a Caddy: the command line is Caddy's then.
const asCaddy = "MCP_CACHE_TEST_AS_CADDY"

func init() {
	if os.Getenv(asCaddy) != "" {
		caddycmd.Main()
		os.Exit(0)
	}
}

// caddyCommand prepares a Caddy in a process of its own.
func caddyCommand(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return binaryCommand(ctx, t, self, args...)
}

// binaryCommand is caddyCommand of a Caddy in that file.
func binaryCommand(ctx context.Context, t testing.TB, binary string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), asCaddy+"=1")
	cmd.Dir = t.TempDir()
	return cmd
}

// caddyRun runs a command to its end and returns its output and exit code.
func caddyRun(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runIn(t, t.TempDir(), args...)
}

func runIn(t testing.TB, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*fixture.Deadline)
	defer cancel()
	cmd := caddyCommand(ctx, t, args...)
	cmd.Dir = dir
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatalf("running %q: %v", args, err)
	}
	return out.String(), failure.String(), code
}

// process is a Caddy that runs until the test ends, or it is stopped.
type process struct {
	pid   int
	ended chan struct{} // is closed then

	mu  sync.Mutex
	out []string // lines
	err bytes.Buffer
}

// Write takes what the process writes to standard error.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err.Write(b)
}

// complaints returns what the process has written to standard error.
func (p *process) complaints() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err.String()
}

// startProcess starts a Caddy whose standard output is read.
func startProcess(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	return startCommand(t, caddyCommand(ctx, t, args...), env, cancel)
}

// startCommand is startProcess of a command, which kill ends.
func startCommand(t testing.TB, cmd *exec.Cmd, env []string, kill func()) *process {
	t.Helper()
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{ended: make(chan struct{})}
	cmd.Stderr = p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		defer close(p.ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.mu.Lock()
			p.out = append(p.out, s.Text())
			p.mu.Unlock()
		}
		_ = cmd.Wait() // it may have been killed
	}()
	t.Cleanup(func() {
		kill()
		<-p.ended
		if t.Failed() {
			t.Logf("it wrote\n%s", strings.Join(p.lines(), "\n"))
		}
	})
	return p
}

// quit asks the process to end, as systemd and Docker do.
func (p *process) quit(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(p.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// stop has the process end, and waits until it has.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.quit(t)
	p.awaitEnd(t)
}

// awaitEnd waits until the process has ended.
func (p *process) awaitEnd(t testing.TB) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(fixture.Deadline):
		t.Fatal("the process does not end")
	}
}

func (p *process) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.out)
}

// find returns the rest of the first line with that beginning.
func (p *process) find(beginning string) (rest string, ok bool) {
	for _, line := range p.lines() {
		if after, found := strings.CutPrefix(line, beginning); found {
			return after, true
		}
	}
	return "", false
}

// TestServeShowsProgress starts serve before its upstream: it says that it
// waits, what has been fetched, and when it is ready.
func TestServeShowsProgress(t *testing.T) {
	w := newUpstream(t)
	release := make(chan struct{})
	w.SetScript(scripted.PromptsList, scripted.Hang(release))
	p := startProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", w.host.URL)
	shows := func(want string) func() bool {
		return func() bool {
			return slices.ContainsFunc(p.lines(), func(line string) bool {
				return strings.HasPrefix(line, "Feeds: ") && strings.Contains(line, want)
			})
		}
	}
	fixture.Await(t, "it to say that the upstream is down", shows("2025-11-25 down (connect: "))
	if !shows("down (connect: connection refused at 127.0.0.1:")() {
		t.Error("it does not say why")
	}
	w.host.Start()
	endpoint, _ := p.find("mcp_cache is at ")
	endpoint, _, _ = strings.Cut(endpoint, ", ")
	for _, revision := range revisions {
		fixture.New(t, endpoint, revision, "").List(scripted.ToolsList) // the feed need not wait for its next attempt
	}
	fixture.Await(t, "it to say that it hydrates", shows("2025-11-25 hydrating"))
	fixture.Await(t, "it to say what is there", shows("tools 3"))
	close(release)
	fixture.Await(t, "it to be ready", shows("2025-11-25 ready, 2026-07-28 ready, tools 3, prompts 3, resources 3, resource_templates 3"))
	admin, ok := p.find("Caddy's admin API is at ")
	if !ok {
		t.Fatal("it does not say where its admin API is")
	}
	_, command, printed := strings.Cut(admin, ". See how the cache is: caddy ")
	if !printed {
		command = "mcp-cache status --address " + strings.TrimSuffix(admin, ".")
	}
	table, complaint, code := caddyRun(t, strings.Fields(command)...)
	if code != 0 || fields(table, "tools") == nil {
		t.Errorf("its status is %d, %s%s", code, table, complaint)
	}
	// It has said itself that the server was down, and that a client goes away is
	// nothing that people have to know of.
	s := fixture.New(t, endpoint, scripted.LatestLegacy, "")
	s.List(scripted.ToolsList)
	stream := s.Notices()
	fixture.Await(t, "the client's stream", func() bool { return w.Streams(ofEra(s)) == 1 })
	stream.Close()
	fixture.Await(t, "the end of the client's stream", func() bool { return w.Streams(ofEra(s)) == 0 })
	if got := p.complaints(); got != "" {
		t.Errorf("on standard error it says\n%s", got)
	}
	w.host.Kill()
	fixture.Await(t, "it to say that the upstream is gone", func() bool {
		lines := p.lines()
		return strings.HasPrefix(lines[len(lines)-1], "Trouble: nothing listens at ")
	})
	if got := p.complaints(); got != "" {
		t.Errorf("on standard error it says\n%s", got)
	}
}

// TestRefreshesAreTraced exports the spans of a Caddy that traces requests: the
// feeds' refreshes are among them.
func TestRefreshesAreTraced(t *testing.T) {
	w := newUpstream(t)
	w.host.Start()
	admin, addr := fixture.FreeAddr(t), fixture.FreeAddr(t)
	_, port, _ := strings.Cut(addr, ":")
	caddyfile := filepath.Join(t.TempDir(), "Caddyfile")
	config := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n}\nhttp://:%s {\n\tbind 127.0.0.1\n\troute {\n\t\ttracing\n\t\t%s\n\t}\n}\n",
		admin, port, mcpCache(w.host.URL))
	if err := os.WriteFile(caddyfile, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, []string{"OTEL_TRACES_EXPORTER=console", "OTEL_BSP_SCHEDULE_DELAY=50"}, "run", "--config", caddyfile)
	fixture.Await(t, "a list", func() bool {
		c := fixture.NewModern(t, "http://"+addr+"/mcp", "")
		a, err := c.TryList(t.Context(), scripted.ToolsList)
		return err == nil && a.Status == http.StatusOK
	})
	if _, complaint, code := caddyRun(t, "mcp-cache", "refresh", "tools", "--address", admin); code != 0 {
		t.Fatalf("refreshing: %d, %s", code, complaint)
	}
	spans := func() map[string]int {
		counts := make(map[string]int)
		decoder := json.NewDecoder(strings.NewReader(strings.Join(p.lines(), "\n")))
		for {
			var span struct {
				Name       string
				Attributes []struct {
					Key   string
					Value struct{ Value any }
				}
			}
			if err := decoder.Decode(&span); err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("reading spans: %v", err)
				}
				return counts
			}
			for _, a := range span.Attributes {
				if a.Key == "mcp.method.name" {
					counts[fmt.Sprint(span.Name, " ", a.Value.Value)]++
				}
			}
		}
	}
	fixture.Await(t, "the spans", func() bool {
		counts := spans()
		return counts["handler tools/list"] > 0 && counts["refresh tools tools/list"] >= 2
	})
}
