package feed

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// calls is what a feed knows of a list and of calls that may have changed it without a notice. [List.Asked] sets
// asked and due without the feed's mu; everybody else sets the fields while holding it.
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
// same, [List.Asked] need not be called twice for one list.
func Occasions() uint64 { return occasions.Load() + 1 }

// proofEach is how often, after calls, an upstream that claims to announce changes is
// checked, until it has announced one.
const proofEach = 10 * time.Second

// Asked tells the feed that a client is given its list. If the list was not fetched since a call
// that may have changed it, that is done now, in the background. Otherwise it is done after the next call. So
// it is done no more often than clients ask; but for lists that have changed without a notice before.
func (l *List) Asked() {
	c := &l.calls
	if !c.pending.Load() {
		if !c.asked.Load() {
			c.asked.Store(true)
		}
		return
	}
	if !c.due.CompareAndSwap(false, true) {
		return
	}
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	l.look(l.feed.policy().Refresh)
	if l.notices.Caught(time.Now()) {
		c.asked.Store(true)
	}
}

// look has a list fetched that a call may have changed, no sooner than so long after the last fetch began, unless a fetch
// from after the call is under way. The caller holds the feed's mu.
func (l *List) look(pause time.Duration) {
	l.notices.Check(time.Now())
	if l.current(nil, func(fetch *Fetch) bool { return fetch.mark.AskedSince(l.calls.last) }) == nil {
		l.recheck(pause)
	}
}

// MayBeSilent reports whether a call may change a list without a notice: see [List.Called].
func (f *Feed) MayBeSilent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	return slices.ContainsFunc(f.lists[:], func(l *List) bool { return l.mayBeSilent(now) })
}

// mayBeSilent reports whether the list may change without a notice: the upstream does not announce changes,
// or has been caught, or is due to be checked. The caller holds the feed's mu.
func (l *List) mayBeSilent(now time.Time) bool {
	f := l.feed
	if f.conn == nil || !l.offered || l.kind == revision.Discover {
		return false
	}
	return l.notices.Caught(now) || !f.conn.Announces(l.kind) || !f.conn.listening ||
		!l.notices.Proven(now, max(proofEach, f.policy().Refresh))
}

// Called tells the feed of a call that may have changed the list; m is what [cache.Changes.Suspect] has returned
// for it. It concerns upstreams that do not announce changes, or have not done so yet, or have been caught.
//
// If a client was given the list since it was last fetched because of calls, it is fetched in the background, as
// soon as the policy's Refresh allows. Otherwise that is put off until a client is given it, see [List.Asked], or whoever
// has called asks for it, see [List.AwaitCalled]. Only a list that has changed without a notice before
// is fetched all the same, in pauses that grow while nothing changes.
//
// Called reports whether the list has ever changed without a notice, and whether the fetch was put off.
func (l *List) Called(m cache.Mark) (caught, later bool) {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	now := time.Now()
	if !l.mayBeSilent(now) {
		return false, false
	}
	return l.called(m, now)
}

// Misled is [List.Called] of a call that has failed since its client may not have known the list as it
// is: that of any upstream.
func (l *List) Misled(m cache.Mark) {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	if l.feed.conn != nil && l.offered {
		l.called(m, time.Now())
	}
}

// called is Called of a list that may have changed without a notice. The caller holds the feed's mu.
func (l *List) called(m cache.Mark, now time.Time) (caught, later bool) {
	l.calls.last = m
	l.calls.pending.Store(true)
	l.calls.due.Store(false)
	defer occasions.Add(1)
	caught = l.notices.Caught(now)
	switch refresh := l.feed.policy().Refresh; {
	case l.calls.asked.Swap(false):
		l.look(refresh)
		return caught, false
	case caught:
		l.look(l.notices.IdlePause(refresh))
	}
	return caught, true
}

// AwaitCalled has the list fetched, if it was not since the last call that may have changed
// it, and waits for that like [List.Await]. It does neither if the fetch is not allowed to begin about now.
func (l *List) AwaitCalled(ctx context.Context) {
	if !l.calls.pending.Load() {
		return
	}
	l.feed.mu.Lock()
	last := l.calls.last
	if refresh := l.feed.policy().Refresh; !later(l.started.Add(refresh), l.notBefore).After(time.Now().Add(imminent)) {
		l.look(refresh)
	}
	l.feed.mu.Unlock()
	l.Await(ctx, last)
}

// compareCalled records whether a fetch for the feed's own snapshot has found what a call has changed. The
// caller holds the feed's mu.
func (l *List) compareCalled(before, now *cache.Entry) {
	called := l.calls.pending.Load() && now.Mark.AskedSince(l.calls.last)
	if called {
		l.calls.pending.Store(false)
		l.calls.due.Store(false)
		occasions.Add(1)
	}
	if before != nil {
		l.notices.Called(called, before.Body.ItemsDigest == now.Body.ItemsDigest)
	}
}
