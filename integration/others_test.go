package integration

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// others are clients and servers that others wrote, as .ci/steps/clients installs
// them.
type others struct{ dir string }

// installed returns them, or skips the test if they are not installed.
func installed(t testing.TB) others {
	t.Helper()
	dir := os.Getenv("MCP_CLIENTS")
	if dir == "" {
		t.Skip("MCP_CLIENTS does not say where clients of others are installed: .ci/run clients does that")
	}
	return others{dir}
}

// everything is the reference server of the TypeScript SDK, with sessions. It
// reads its port from the environment.
func (o others) everything() []string {
	return []string{
		o.node(), filepath.Join(o.dir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "streamableHttp",
	}
}

func (o others) node() string { return filepath.Join(o.dir, "node_modules/.bin/node") }

// python runs one of our scripts with the packages of that name.
func (o others) python(packages, script string, args ...string) []string {
	return append([]string{filepath.Join(o.dir, packages, "bin/python"), filepath.Join("..", "clients", script)}, args...)
}

// otherServer is a server of its own process.
type otherServer struct {
	t       testing.TB
	addr    string
	command []string
	running *exec.Cmd
	gone    chan struct{} // closed when running has ended
	said    bytes.Buffer
}

// startOther runs a server that listens on that address until the test ends.
func startOther(t testing.TB, addr string, command ...string) *otherServer {
	t.Helper()
	p := &otherServer{t: t, addr: addr, command: command}
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s said: %.2000s", command[len(command)-1], p.said.String())
		}
	})
	p.start()
	return p
}

// start starts the server, and returns when it takes connections.
func (p *otherServer) start() {
	p.t.Helper()
	_, port, err := net.SplitHostPort(p.addr)
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
	p.running, p.gone = cmd, gone
	fixture.AwaitFor(p.t, slowStart, "the server's port", func() bool {
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.addr)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
}

// end ends the server with a signal, and returns when it has gone.
func (p *otherServer) end(s syscall.Signal) {
	if p.running == nil {
		return
	}
	_ = p.running.Process.Signal(s) // it may have ended by itself
	<-p.gone
	p.running = nil
}

// slowStart is how long a program of an interpreter may take until it is there.
const slowStart = 4 * fixture.Deadline
