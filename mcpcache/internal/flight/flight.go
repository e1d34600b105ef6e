// Package flight does a piece of work once for all who need it at the same time. The first caller
// begins a [Flight], and the others wait for its result. [Signal] wakes one goroutine that waits
// for something to do.
package flight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// MaxWaiters is how many callers wait for one flight at once. Each of them holds a goroutine
// and a request.
const MaxWaiters = 10_000

// ErrTooManyWaiters says that [MaxWaiters] callers wait for a flight already.
var ErrTooManyWaiters = errors.New("too many callers wait for the same answer already")

// Flight is work under way. Its methods may be called by several goroutines at once.
type Flight[R any] struct {
	asked   time.Time
	leave   func() // makes room for the next flight of its group; nil: it belongs to none
	waiters atomic.Int64
	landing sync.Once
	landed  chan struct{} // closed when result and err are there
	result  R
	err     error
}

// New returns a flight that begins now, and that belongs to no group.
func New[R any]() *Flight[R] {
	return &Flight[R]{asked: time.Now(), landed: make(chan struct{})}
}

// Asked returns when the work was first asked for.
func (f *Flight[R]) Asked() time.Time { return f.asked }

// Landed returns a channel that is closed once the work is over.
func (f *Flight[R]) Landed() <-chan struct{} { return f.landed }

// Land gives all who wait the result of the work, or the reason why it has none. The first call
// counts, and every flight needs one.
func (f *Flight[R]) Land(result R, err error) {
	f.landing.Do(func() {
		f.result, f.err = result, err
		if f.leave != nil {
			f.leave()
		}
		close(f.landed)
	})
}

// Wait returns what [Flight.Land] was given. If ctx ends before that, it returns the cause, and the
// work goes on. With [MaxWaiters] callers waiting already, it returns [ErrTooManyWaiters] at once.
func (f *Flight[R]) Wait(ctx context.Context) (none R, err error) {
	if f.hasLanded() { // which counts though ctx has ended: the caller may have waited for something else
		return f.result, f.err
	}
	defer f.waiters.Add(-1)
	if f.waiters.Add(1) > MaxWaiters {
		return none, ErrTooManyWaiters
	}
	select {
	case <-f.landed:
	case <-ctx.Done():
		if !f.hasLanded() {
			return none, context.Cause(ctx)
		}
	}
	return f.result, f.err
}

func (f *Flight[R]) hasLanded() bool {
	select {
	case <-f.landed:
		return true
	default:
		return false
	}
}

// WaitUpTo is [Flight.Wait] that ends when limit has passed since the work was first asked for: late
// callers wait no longer than the first one.
func (f *Flight[R]) WaitUpTo(ctx context.Context, limit time.Duration) (R, error) {
	ctx, cancel := context.WithDeadline(ctx, f.asked.Add(limit))
	defer cancel()
	return f.Wait(ctx)
}

// Group has one flight at a time for each key. The zero value is ready for use, by several
// goroutines at once.
type Group[K comparable, R any] struct {
	// Max bounds how many flights are under way; 0: any number.
	Max int

	mu       sync.Mutex
	underWay map[K]*Flight[R]
}

// Join returns the flight of a key. With first, the caller has begun it, and has to let it land.
// Join returns nil if the key has no flight, and no room is left for one.
func (g *Group[K, R]) Join(key K) (f *Flight[R], first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.underWay[key]; f != nil {
		return f, false
	}
	if g.Max > 0 && len(g.underWay) >= g.Max {
		return nil, false
	}
	if g.underWay == nil {
		g.underWay = make(map[K]*Flight[R])
	}
	f = New[R]()
	f.leave = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.underWay, key)
	}
	g.underWay[key] = f
	return f, true
}
