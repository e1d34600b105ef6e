package feed

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// maxWaiters bounds how many callers wait for one flight at once. Each holds a
// goroutine and a request; beyond that many, the upstream's own handler is the
// better place to wait.
const maxWaiters = 10_000

// ErrTooManyWaiters says that as many callers wait for a flight as may. This
// one should ask the upstream itself.
var ErrTooManyWaiters = errors.New("too many callers wait for the list already")

// Flight is one fetch of a list that up to 10,000 callers wait for.
type Flight struct {
	mark    cache.Mark      // the moment it left
	left    bool            // under the feed's mu; before that, it will bring whatever is announced
	variant *variant.Record // nil as the feed itself asks
	began   time.Time
	// departed is when the flight left.
	departed time.Time
	waiters  atomic.Int64
	done     chan struct{}
	entry    *cache.Entry
	err      error
	// change is what the entry has new, of a flight for the feed's own snapshot.
	change Change
	// overtaken says that a newer snapshot was there before the entry.
	overtaken bool
}

// Wait returns the snapshot that the flight brings, or why it brings none. It
// waits no longer than ctx lasts; the flight goes on without its callers. It
// does not wait at all, and returns [ErrTooManyWaiters], if too many do.
func (f *Flight) Wait(ctx context.Context) (*cache.Entry, error) {
	defer f.waiters.Add(-1)
	if f.waiters.Add(1) > maxWaiters {
		return nil, ErrTooManyWaiters
	}
	select {
	case <-f.done:
		return f.entry, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// landedFlight returns a flight that is over and has brought e.
func landedFlight(e *cache.Entry, v *variant.Record) *Flight {
	f := &Flight{mark: e.Mark, left: true, variant: v, began: time.Now(), done: make(chan struct{}), entry: e}
	close(f.done)
	return f
}

// Since reports whether the flight left no earlier than m: what it brings is
// not from before a change that m knows of.
func (f *Flight) Since(m cache.Mark) bool { return f.mark.Since(m) }

// Began is when the flight was first asked for.
func (f *Flight) Began() time.Time { return f.began }

// keyOf returns the key of a variant in the cache; nil is how the feed itself
// asks.
func keyOf(v *variant.Record) cache.Variant {
	if v == nil {
		return cache.Variant{}
	}
	return v.Key
}

// maxFlights bounds the fetches of one kind that are under way at once: for
// each of a few variants one from before the last change, whose callers came
// before it too, and one from after.
const maxFlights = 8

// slot is what a feed knows of one kind.
type slot struct {
	offered   bool // the upstream has it and the operator wants it
	attempted bool // fetched at least once since the feed connected
	flights   []*Flight
	told      time.Time // of the last change
	started   time.Time // of the last fetch
	due       time.Time // of the next one
	notBefore time.Time // until when the upstream wants to be left alone
	retry     *backoff.ExponentialBackOff
	failure   *Failure
	silence   silence
	// variantsDue is when the lists of variants are to be fetched again, zero if
	// they are not; variantsStarted is when they last were.
	variantsDue, variantsStarted time.Time
	// landing is closed when the next fetch for the feed's own snapshot ends.
	landing chan struct{}
	// empty counts answers in a row that were empty although the list was
	// not, without a notice.
	empty int
}

// current returns the flight that brings what is newest, or nil.
func (s *slot) current(v *variant.Record, is func(*Flight) bool) *Flight {
	for _, f := range s.flights {
		if keyOf(f.variant) == keyOf(v) && (!f.left || is(f)) {
			return f
		}
	}
	return nil
}

// ask makes the next fetch due: now, unless the last one began less than
// refresh ago or the upstream wants to be left alone.
func (s *slot) ask(refresh time.Duration) {
	s.due = later(later(time.Now(), s.started.Add(refresh)), s.notBefore)
}

// hasten makes the next fetch due at that time, unless it is due sooner.
func (s *slot) hasten(at time.Time) {
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
	}
}

// refreshing reports whether the feed's own snapshot is being fetched.
func (s *slot) refreshing() bool {
	return slices.ContainsFunc(s.flights, func(f *Flight) bool { return f.variant == nil })
}

// fetchesBy reports whether a fetch of the feed's own snapshot is under way, or
// due by then.
func (s *slot) fetchesBy(t time.Time) bool {
	return s.refreshing() || !s.due.IsZero() && !s.due.After(t)
}

// announceLanding lets those go on who wait for the feed's own snapshot.
func (s *slot) announceLanding(f *Feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.landing != nil {
		close(s.landing)
		s.landing = nil
	}
}

func (s *slot) land(f *Flight) {
	s.flights = slices.DeleteFunc(s.flights, func(other *Flight) bool { return other == f })
}

// newRetry returns how long to wait between attempts: from a quarter of a
// second, doubling, up to half a minute, each give or take a half.
func newRetry() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 250 * time.Millisecond
	b.Multiplier = 2
	b.RandomizationFactor = 0.5
	b.MaxInterval = 30 * time.Second
	return b
}
