// Package program presents programs that speak MCP on standard input and output as servers of
// Streamable HTTP.
//
// A [Program] is a command. It starts a process for each client's session, once the session needs
// one. That process has the messages of that client alone. Another process has all requests
// without a session. If nobody uses a process, the program stops it. The session goes on: its next
// request starts another process. The program repeats what an earlier process has said of itself,
// so that no process has to run for that. Messages pass as they are written. Only ids and progress
// tokens are different: on the side of the process they are numbers of our own.
//
// The package knows nothing of Caddy.
package program

import (
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/process"
)

// maxStarts is how many programs start at the same time: package managers and caches of
// compilers do not bear more.
const maxStarts = 4

// Host is what all programs of this process have in common.
type Host struct {
	launcher *process.Launcher
	starts   chan struct{}
	stopping sync.WaitGroup // programs that end

	mu       sync.Mutex
	programs map[*Program]struct{}
}

// NewHost returns a host. It has to be closed.
func NewHost() *Host {
	return &Host{
		launcher: process.NewLauncher(),
		starts:   make(chan struct{}, maxStarts),
		programs: make(map[*Program]struct{}),
	}
}

// EndAll begins to end all programs at once, as there is little time, and returns when they
// have ended: those that do not end by themselves are killed after within.
func (h *Host) EndAll(within time.Duration) {
	h.mu.Lock()
	var ending sync.WaitGroup
	for p := range h.programs {
		ending.Go(func() { p.endProcesses(func(c *child) { c.process.Terminate(within) }) })
	}
	h.mu.Unlock()
	ending.Wait()
	h.stopping.Wait()
}

// Close ends the host, once all programs that were ended have come to their end.
func (h *Host) Close() {
	h.stopping.Wait()
	h.launcher.Close()
}
