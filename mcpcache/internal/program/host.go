// Package program presents programs that speak MCP on standard input and output as servers of
// Streamable HTTP.
//
// A [Program] is a command. For each session of a client a process of it runs once that is needed,
// which has that client's messages alone, and for all requests without a session another one. A
// process that nobody uses is stopped; the session goes on, with another process, at its next
// request. What the program has said of itself is said again without one. Messages pass as they are written, but for ids
// and progress tokens, which are numbers of our own on the program's side.
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
		ending.Go(func() { p.end(func(c *child) { c.process.Terminate(within) }) })
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
