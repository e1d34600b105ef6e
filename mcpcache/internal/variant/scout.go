package variant

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// maxWaiters bounds how many callers wait for one scout.
const maxWaiters = 10_000

// Scout is the first of several requests for a list: it goes to the upstream,
// and its answer tells what the others may be given.
type Scout struct {
	place   *atomic.Pointer[Scout]
	began   time.Time
	waiters atomic.Int64
	back    chan struct{}
}

// Send makes the caller the scout of a list, unless there is one. The scout has
// to be told to return.
func (r *Record) Send(rev revision.Revision, k revision.Kind, now time.Time) (s *Scout, first bool) {
	place := &r.lists[rev][k].scout
	own := &Scout{place: place, began: now, back: make(chan struct{})}
	for {
		if place.CompareAndSwap(nil, own) {
			return own, true
		}
		if other := place.Load(); other != nil {
			return other, false
		}
	}
}

// Return ends the wait for the scout: what its answer tells is known now, or
// never will be. It must be called once.
func (s *Scout) Return() {
	s.place.CompareAndSwap(s, nil)
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
