package session

import "sync"

const (
	// maxEnding is how many sessions are ended with servers at a time.
	maxEnding = 16
	// maxWaiting is how many wait for that. A server ends others by itself after a while.
	maxWaiting = 4096
)

// endings are the sessions with servers that are ended in the background.
type endings struct {
	mu      sync.Mutex
	running int
	waiting []*Upstream
}

// add ends a session once there is a place for that.
func (e *endings) add(u *Upstream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.running < maxEnding:
		e.running++
		go e.run(u)
	case len(e.waiting) < maxWaiting:
		e.waiting = append(e.waiting, u)
	}
}

// run ends a session, and then those that wait.
func (e *endings) run(u *Upstream) {
	for ; u != nil; u = e.next() {
		u.finish()
	}
}

// next returns the one that has waited longest, nil if none waits: then its caller ends none.
func (e *endings) next() (u *Upstream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) == 0 {
		e.running--
		return nil
	}
	u, e.waiting[0] = e.waiting[0], nil
	e.waiting = e.waiting[1:]
	return u
}
