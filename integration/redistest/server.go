// Package redistest starts a real Redis for tests, and can end or freeze it.
package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// Server is a Redis of a test's own, which keeps its address while it is down.
type Server struct {
	Addr, URL, Port string

	t    testing.TB
	args []string
	run  *exec.Cmd
}

// Start starts a Redis with those options, which ends with the test. The test is skipped if
// MCP_REDIS does not say where a redis-server is.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	s := NewDown(t, options...)
	s.Start()
	return s
}

// NewDown is like [Start], but the Redis is still to be started.
func NewDown(t testing.TB, options ...string) *Server {
	t.Helper()
	if os.Getenv("MCP_REDIS") == "" {
		t.Skip("MCP_REDIS does not say where a redis-server is: .ci/run fleet does that")
	}
	s := &Server{t: t, Addr: fixture.FreeAddr(t)}
	_, s.Port, _ = net.SplitHostPort(s.Addr)
	s.URL = "redis://" + s.Addr
	s.args = []string{"--port", s.Port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}
	s.Configure(options...)
	t.Cleanup(s.Kill)
	return s
}

// NewNode starts a Redis that is a node of a cluster, still without others. It is met at Port
// and the returned port.
func NewNode(t testing.TB, options ...string) (node *Server, bus string) {
	t.Helper()
	_, bus, _ = net.SplitHostPort(fixture.FreeAddr(t)) // the usual one is where connections of others may be
	return Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", bus}, options...)...), bus
}

// Configure adds options for the next start.
func (s *Server) Configure(options ...string) { s.args = append(s.args, options...) }

// Start starts it, and waits until it takes connections. It must be down.
func (s *Server) Start() {
	s.t.Helper()
	s.run = exec.Command(os.Getenv("MCP_REDIS"), s.args...)
	if err := s.run.Start(); err != nil {
		s.t.Fatalf("starting Redis: %v", err)
	}
	fixture.Await(s.t, "Redis", func() bool {
		c, err := net.Dial("tcp", s.Addr)
		if err == nil {
			err = c.Close()
		}
		return err == nil
	})
}

// Kill ends it, as a crash does.
func (s *Server) Kill() {
	if s.run != nil {
		_ = s.run.Process.Kill()
		_ = s.run.Wait()
		s.run = nil
	}
}

// Freeze stops it without ending it, until [Server.Thaw].
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw has it go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.run.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// Do sends a command as its administrator does, and returns the answer as text.
func (s *Server) Do(command ...string) string {
	s.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer client.Close()
	words := make([]any, len(command))
	for i := range command {
		words[i] = command[i]
	}
	answer, err := client.Do(s.t.Context(), words...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatalf("%v: %v", command, err)
	}
	return fmt.Sprint(answer)
}

// Succeed makes it the primary in place of another, whose values it has. That becomes its
// read-only replica, and keeps its connections.
func (s *Server) Succeed(other *Server) {
	s.t.Helper()
	other.Do("CONFIG", "SET", "repl-diskless-sync-delay", "0")
	s.Do("REPLICAOF", "127.0.0.1", other.Port)
	fixture.Await(s.t, "a copy of the primary", func() bool { return strings.Contains(s.Do("INFO", "replication"), "master_link_status:up") })
	s.Do("REPLICAOF", "NO", "ONE")
	other.Do("REPLICAOF", "127.0.0.1", s.Port)
}
