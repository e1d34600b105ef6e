package exit

import (
	"sync"
	"time"
)

// Group waits for the ends of all modules of one configuration together. Caddy cleans modules up one
// after the other, and only the last one of a group waitg. Somebody waits for a reload, and for a
// process to stop.
type Group struct {
	timeout time.Duration

	mu      sync.Mutex
	members int // that have been added and are not done
	ending  []<-chan struct{}
	begun   time.Time // when the first of them began to end
}

// NewGroup returns a group without members, which waits for timeout at most.
func NewGroup(timeout time.Duration) *Group { return &Group{timeout: timeout} }

// Add adds a module. The module has to call [Group.Done] once.
func (g *Group) Add() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members++
}

// Done says that Caddy cleans a module up. ended is closed when what the module has started ends,
// and nil if that lives on. The last module of the group waits for all of them, until the timeout
// has passed since the first began to end. What takes longer goes on by itself.
func (g *Group) Done(ended <-chan struct{}) {
	g.mu.Lock()
	g.members--
	if ended != nil {
		if len(g.ending) == 0 {
			g.begun = time.Now()
		}
		g.ending = append(g.ending, ended)
	}
	if g.members > 0 {
		g.mu.Unlock()
		return
	}
	ending, begun := g.ending, g.begun
	g.ending = nil
	g.mu.Unlock()
	if len(ending) == 0 {
		return
	}
	timer := time.NewTimer(time.Until(begun.Add(g.timeout)))
	defer timer.Stop()
	for _, ended := range ending {
		select {
		case <-ended:
		case <-timer.C:
			return
		}
	}
}
