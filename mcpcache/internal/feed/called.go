package feed

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// calls is what a feed knows of a list and of calls that may have changed it without a notice. [Feed.Asked] sets
// asked and due without f.mu; everybody else sets the fields while holding it.
type calls struct {
	// asked says that clients were given the feed's list since it was last fetched because of calls.
	asked atomic.Bool
	// pending says that the list was not fetched since the last call, due that a client has had that
	// planned.
	pending, due atomic.Bool
	last         cache.Mark // of the last call
}

// occasions counts calls, and fetches after them, of all feeds: see [Occasions].
var occasions atomic.Uint64

// Occasions returns a number, never 0, that grows when it matters anew that a client is given a list. While it stays the
// same, [Feed.Asked] need not be called twice for one list.
func Occasions() uint64 { return occasions.Load() + 1 }

// proofEach is how often, after calls, an upstream that claims to announce changes is
// checked, until it has announced one.
const proofEach = 10 * time.Second

// Asked tells the feed that a client is given its list of kind k. If the list was not fetched since a call
// that may have changed it, that is done now, in the background. Otherwise it is done after the next call. So
// it is done no more often than clients ask; but for lists that have changed without a notice before.
func (f *Feed) Asked(k revision.Kind) {
	c := &f.slots[k].calls
	if !c.pending.Load() {
		if !c.asked.Load() {
			c.asked.Store(true)
		}
		return
	}
	if !c.due.CompareAndSwap(false, true) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(&f.slots[k], f.policy().Refresh)
	if f.slots[k].notices.Caught(time.Now()) {
		c.asked.Store(true)
	}
}

// look has a list fetched that a call may have changed, no sooner than so long after the last fetch began, unless a fetch
// from after the call is under way. The caller holds f.mu.
func (f *Feed) look(s *slot, pause time.Duration) {
	s.notices.Check(time.Now())
	if s.current(nil, func(fetch *Fetch) bool { return fetch.mark.AskedSince(s.calls.last) }) == nil {
		f.recheck(s, pause)
	}
}

// MayBeSilent reports whether a call may change a list without a notice: see [Feed.Called].
func (f *Feed) MayBeSilent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(revision.Kinds(), func(k revision.Kind) bool { return f.mayBeSilent(k, time.Now()) })
}

// mayBeSilent reports whether list k may change without a notice: the upstream does not announce changes,
// or has been caught, or is due to be checked. The caller holds f.mu.
func (f *Feed) mayBeSilent(k revision.Kind, now time.Time) bool {
	s := &f.slots[k]
	if f.session == nil || !s.offered || k == revision.Discover {
		return false
	}
	return s.notices.Caught(now) || !f.session.Announces(k) || !f.listening ||
		!s.notices.Proven(now, max(proofEach, f.policy().Refresh))
}

// Called tells the feed of a call that may have changed list k; m is what [cache.Cache.Doubt] has returned
// for it. It concerns upstreams that do not announce changes, or have not done so yet, or have been caught.
//
// If a client was given the list since it was last fetched because of calls, it is fetched in the background, as
// soon as the policy's Refresh allows. Otherwise that is put off until a client is given it, see [Feed.Asked], or whoever
// has called asks for it, see [Feed.AwaitCalled]. Only a list that has changed without a notice before
// is fetched all the same, in pauses that grow while nothing changes.
//
// Called reports whether the list has ever changed without a notice, and whether the fetch was put off.
func (f *Feed) Called(k revision.Kind, m cache.Mark) (caught, later bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if !f.mayBeSilent(k, now) {
		return false, false
	}
	return f.called(k, m, now)
}

// Misled is [Feed.Called] of a call that has failed since its client may not have known list k as it
// is: that of any upstream.
func (f *Feed) Misled(k revision.Kind, m cache.Mark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != nil && f.slots[k].offered {
		f.called(k, m, time.Now())
	}
}

// called is Called of a list that may have changed without a notice. The caller holds f.mu.
func (f *Feed) called(k revision.Kind, m cache.Mark, now time.Time) (caught, later bool) {
	s := &f.slots[k]
	s.calls.last = m
	s.calls.pending.Store(true)
	s.calls.due.Store(false)
	defer occasions.Add(1)
	caught = s.notices.Caught(now)
	switch refresh := f.policy().Refresh; {
	case s.calls.asked.Swap(false):
		f.look(s, refresh)
		return caught, false
	case caught:
		f.look(s, s.notices.IdlePause(refresh))
	}
	return caught, true
}

// AwaitCalled has the list of kind k fetched, if it was not since the last call that may have changed
// it, and waits for that like [Feed.Await]. It does neither if the fetch is not allowed to begin about now.
func (f *Feed) AwaitCalled(ctx context.Context, k revision.Kind) {
	s := &f.slots[k]
	if !s.calls.pending.Load() {
		return
	}
	f.mu.Lock()
	last := s.calls.last
	if refresh := f.policy().Refresh; !later(s.started.Add(refresh), s.notBefore).After(time.Now().Add(imminent)) {
		f.look(s, refresh)
	}
	f.mu.Unlock()
	f.Await(ctx, k, last)
}

// compareCalled records whether a fetch for the feed's own snapshot has found what a call has changed. The
// caller holds f.mu.
func (s *slot) compareCalled(before, now *cache.Entry) {
	called := s.calls.pending.Load() && now.Mark.AskedSince(s.calls.last)
	if called {
		s.calls.pending.Store(false)
		s.calls.due.Store(false)
		occasions.Add(1)
	}
	if before != nil {
		s.notices.Called(called, before.Body.ItemsDigest == now.Body.ItemsDigest)
	}
}
