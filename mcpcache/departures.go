package mcpcache

import (
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/keeper"
)

// farewellTimeout is how long a configuration waits when it ends: for the
// sessions of all its feeds to be closed and for what is still to be saved, all
// of it together. Somebody waits for a reload, and for a process to stop.
const farewellTimeout = keeper.FarewellTimeout

// departures has the handlers of one configuration end what is theirs side by
// side. Caddy cleans them up one after the other; nobody waits but the last.
type departures struct {
	mu      sync.Mutex
	staying int
	ending  []<-chan struct{}
	begun   time.Time // of the first end
}

// join counts a handler. It has to leave.
func (d *departures) join() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.staying++
}

// leave is called by a handler that is done. ended is closed when what it has
// begun to end has ended; nil if there is nothing to wait for. The last one
// waits for all, for [farewellTimeout] since the first of them began at most:
// what takes longer goes on by itself, within its own time limits.
func (d *departures) leave(ended <-chan struct{}) {
	d.mu.Lock()
	d.staying--
	if ended != nil {
		if len(d.ending) == 0 {
			d.begun = time.Now()
		}
		d.ending = append(d.ending, ended)
	}
	if d.staying > 0 {
		d.mu.Unlock()
		return
	}
	ending, begun := d.ending, d.begun
	d.ending = nil
	d.mu.Unlock()
	if len(ending) == 0 {
		return
	}
	timer := time.NewTimer(time.Until(begun.Add(farewellTimeout)))
	defer timer.Stop()
	for _, ended := range ending {
		select {
		case <-ended:
		case <-timer.C:
			return
		}
	}
}
