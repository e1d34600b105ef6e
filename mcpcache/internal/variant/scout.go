package variant

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// maxWaiters bounds how many callers wait for one scout.
const maxWaiters = 10_000

// Scout is the first of several requests for a list at a time: it goes to the
// upstream, and the others wait for its answer, which shows what they may be given.
type Scout struct {
	leave   func() // makes room for the next one
	began   time.Time
	waiters atomic.Int64
	back    chan struct{}
}

// Send makes the caller the scout of a list, unless there is one. A new scout must be
// ended with Return.
func (r *Record) Send(rev revision.Revision, k revision.Kind, now time.Time) (s *Scout, first bool) {
	place := &r.lists[rev][k].scout
	own := &Scout{began: now, back: make(chan struct{})}
	own.leave = func() { place.CompareAndSwap(own, nil) }
	for {
		if place.CompareAndSwap(nil, own) {
			return own, true
		}
		if other := place.Load(); other != nil {
			return other, false
		}
	}
}

// maxScouts bounds how many scouts are under way by key.
const maxScouts = 256

// Scouts are sent for lists that are told apart by keys. The zero value is ready
// for use, by several goroutines at once.
type Scouts struct {
	mu  sync.Mutex
	out map[string]*Scout
}

// Send makes the caller the scout for a key, unless there is one. The scout has to
// be told to return. It returns nil if too many are under way.
func (ss *Scouts) Send(key string, now time.Time) (s *Scout, first bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if other := ss.out[key]; other != nil || len(ss.out) == maxScouts {
		return other, false
	}
	if ss.out == nil {
		ss.out = make(map[string]*Scout)
	}
	own := &Scout{began: now, back: make(chan struct{}), leave: func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		delete(ss.out, key)
	}}
	ss.out[key] = own
	return own, true
}

// Return ends the wait for the scout: its answer has been read, or will not be. It
// must be called once.
func (s *Scout) Return() {
	s.leave()
	close(s.back)
}

// Wait waits until the scout returns, for no longer than patience after it was
// sent, and reports whether it did.
func (s *Scout) Wait(ctx context.Context, now time.Time, patience time.Duration) bool {
	defer s.waiters.Add(-1)
	left := patience - now.Sub(s.began)
	if s.waiters.Add(1) > maxWaiters || left <= 0 {
		return false
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-s.back:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
