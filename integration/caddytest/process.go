package caddytest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// AsCaddy makes the test binary a Caddy: the command line is Caddy's then.
const AsCaddy = "MCP_CACHE_TEST_AS_CADDY"

// CaddyCommand prepares a Caddy in a process of its own.
func CaddyCommand(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return BinaryCommand(ctx, t, self, args...)
}

// BinaryCommand is CaddyCommand of a Caddy in that file.
func BinaryCommand(ctx context.Context, t testing.TB, binary string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), AsCaddy+"=1")
	cmd.Dir = t.TempDir()
	return cmd
}

// Run runs a command to its end and returns its output and exit code.
func Run(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return RunIn(t, t.TempDir(), args...)
}

// RunIn is like [Run], in that folder.
func RunIn(t testing.TB, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*fixture.Deadline)
	defer cancel()
	cmd := CaddyCommand(ctx, t, args...)
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

// Process is a Caddy that runs until the test ends, or it is stopped.
type Process struct {
	PID   int
	Ended chan struct{} // is closed then

	mu  sync.Mutex
	out []string // lines
	err bytes.Buffer
}

// Write takes what the process writes to standard error.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err.Write(b)
}

// Complaints returns what the process has written to standard error.
func (p *Process) Complaints() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err.String()
}

// StartProcess starts a Caddy whose standard output is read.
func StartProcess(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	return StartCommand(t, CaddyCommand(ctx, t, args...), env, cancel)
}

// StartCommand is StartProcess of a command, which kill ends.
func StartCommand(t testing.TB, cmd *exec.Cmd, env []string, kill func()) *Process {
	t.Helper()
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Ended: make(chan struct{})}
	cmd.Stderr = p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.PID = cmd.Process.Pid
	go func() {
		defer close(p.Ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.mu.Lock()
			p.out = append(p.out, s.Text())
			p.mu.Unlock()
		}
		_ = cmd.Wait() // it may have been killed
	}()
	t.Cleanup(func() {
		kill()
		<-p.Ended
		if t.Failed() {
			t.Logf("it wrote\n%s", strings.Join(p.Lines(), "\n"))
		}
	})
	return p
}

// Quit asks the process to end, as systemd and Docker do.
func (p *Process) Quit(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// Stop has the process end, and waits until it has.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.Quit(t)
	p.awaitEnd(t)
}

// awaitEnd waits until the process has ended.
func (p *Process) awaitEnd(t testing.TB) {
	t.Helper()
	select {
	case <-p.Ended:
	case <-time.After(fixture.Deadline):
		t.Fatal("the process does not end")
	}
}

// Lines returns what the process has written to standard output.
func (p *Process) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.out)
}

// Find returns the rest of the first line with that beginning.
func (p *Process) Find(beginning string) (rest string, ok bool) {
	for _, line := range p.Lines() {
		if after, found := strings.CutPrefix(line, beginning); found {
			return after, true
		}
	}
	return "", false
}

// AwaitLine waits for a line with that beginning and returns its rest.
func (p *Process) AwaitLine(t testing.TB, beginning string) (rest string) {
	t.Helper()
	fixture.Await(t, "a line that begins with "+beginning, func() (ok bool) {
		rest, ok = p.Find(beginning)
		return ok
	})
	return rest
}
