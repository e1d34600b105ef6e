package caddytest

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// Reply is what came to a session of another's client: a notice, a list of tools, or
// the result of a call.
type Reply struct {
	Notice bool

	Tool, Text string

	Count  int
	Digest string
	Status string // Cache-Status
}

// UnmarshalJSON reads what the programs of [Others.SDKSessions] print.
func (c *Reply) UnmarshalJSON(data []byte) error {
	if c.Notice = string(data) == `"notice"`; c.Notice {
		return nil
	}
	type list Reply
	return json.Unmarshal(data, (*list)(c))
}

// IsHit reports whether a list came from the cache, fresh.
func (c *Reply) IsHit() bool {
	return strings.Contains(c.Status, "; hit") && !strings.Contains(c.Status, "stale")
}

// SDKSessions are programs that open sessions with clients that declare sampling,
// elicitation and roots, and print what came.
func (o Others) SDKSessions() map[string][]string {
	typescript := []string{o.Node(), "../clients/sessions.cjs", o.Dir}
	return map[string][]string{
		"typescript 1":    append(slices.Clip(typescript), "ts1"),
		"typescript 2":    append(slices.Clip(typescript), "ts2"),
		"python 1":        o.Python("mcp1", "sessions.py", "mcp1"),
		"python 2":        o.Python("mcp2", "sessions.py", "mcp2"),
		"python 2 client": o.Python("mcp2", "sessions.py", "mcp2-client"),
		"fastmcp":         o.Python("fastmcp", "sessions.py", "fastmcp"),
	}
}

// OpenSessions runs such a program, and returns what came to each session, which also calls
// those tools.
func OpenSessions(t *testing.T, program []string, url string, sessions, lists int, tools ...string) (all [][]Reply) {
	t.Helper()
	args := slices.Concat(program[1:], []string{url, strconv.Itoa(sessions), strconv.Itoa(lists)}, tools)
	run := exec.CommandContext(t.Context(), program[0], args...)
	var said bytes.Buffer
	run.Stderr = &said
	printed, err := run.Output()
	if err != nil {
		t.Errorf("running %s: %v: %.2000s", program[len(program)-1], err, said.String())
	}
	for line := range strings.Lines(string(printed)) {
		var one []Reply
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Errorf("reading %.200s: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}

// Others are clients and servers that others wrote, as .ci/steps/clients installs
// them.
type Others struct {
	Dir string // where they are installed
}

// InstalledOthers returns clients and servers that others wrote, or skips the test if they are not installed.
func InstalledOthers(t testing.TB) Others {
	t.Helper()
	dir := os.Getenv("MCP_CLIENTS")
	if dir == "" {
		t.Skip("MCP_CLIENTS does not say where clients of others are installed: .ci/run clients does that")
	}
	return Others{dir}
}

// Everything is the reference server of the TypeScript SDK, with sessions. It
// reads its port from the environment.
func (o Others) Everything() []string {
	return []string{
		o.Node(), filepath.Join(o.Dir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "streamableHttp",
	}
}

// Node is the path of Node.js.
func (o Others) Node() string { return filepath.Join(o.Dir, "node_modules/.bin/node") }

// Python runs one of our scripts with the packages of that name.
func (o Others) Python(packages, script string, args ...string) []string {
	return append([]string{filepath.Join(o.Dir, packages, "bin/python"), filepath.Join("..", "clients", script)}, args...)
}

// OtherServer is a server of its own process.
type OtherServer struct {
	t       testing.TB
	Addr    string
	command []string
	running *exec.Cmd
	Gone    chan struct{} // closed when running has ended
	said    bytes.Buffer
}

// StartOther runs a server that listens on that address until the test ends.
func StartOther(t testing.TB, addr string, command ...string) *OtherServer {
	t.Helper()
	p := &OtherServer{t: t, Addr: addr, command: command}
	t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s said: %.2000s", command[len(command)-1], p.said.String())
		}
	})
	p.Start()
	return p
}

// Start starts the server, and returns when it takes connections.
func (p *OtherServer) Start() {
	p.t.Helper()
	_, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		p.t.Fatalf("splitting address: %v", err)
	}
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Env = append(os.Environ(), "PORT="+port)
	cmd.Stdout, cmd.Stderr = &p.said, &p.said
	// Bridges exit when there is no more input.
	if _, err := cmd.StdinPipe(); err != nil {
		p.t.Fatalf("making the server's input: %v", err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("starting server: %v", err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // it does not end with status 0
	}()
	p.running, p.Gone = cmd, gone
	fixture.AwaitFor(p.t, SlowStart, "the server's port", func() bool {
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.Addr)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
}

// End ends the server with a signal, and returns when it has gone.
func (p *OtherServer) End(s syscall.Signal) {
	if p.running == nil {
		return
	}
	_ = p.running.Process.Signal(s) // it may have ended by itself
	<-p.Gone
	p.running = nil
}

// SlowStart is how long a program of an interpreter may take until it is there.
const SlowStart = 4 * fixture.Deadline
