package feed

import (
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/announce"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/emptylist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// maxFetches bounds the fetches of one kind that are under way at once: for
// each of a few variants one from before the last change, whose callers came
// before it too, and one from after.
const maxFetches = 8

// List is the list of one kind, as a feed keeps it. Its methods may be called from several goroutines at
// once, and its fields are guarded by the feed's mu.
type List struct {
	timing

	feed *Feed
	kind revision.Kind

	offered    bool // the upstream has it and the operator wants it
	attempted  bool // fetched at least once since the feed connected
	delivered  bool // fetched at least once with success since then
	fetches    []*Fetch
	noticeSeen time.Time // when a change was last announced
	missed     time.Time // when one may last have been announced that was not heard of
	leasing    bool      // it is being found out whether another instance fetches it
	coming     *Fetch    // what waits for another instance to fetch it, or nil
	retry      *backoff.ExponentialBackOff
	failure    *Failure
	notices    announce.Record
	calls      calls
	// variants says when the lists of variants are to be fetched again.
	variants timing
	// nextDone is closed when the next fetch for the feed's own snapshot ends.
	nextDone chan struct{}
	// times are those that the last snapshot's lifetime is by.
	times Times
	trial trial
	// woken is when the upstream was woken last, zero once it has been asked since. settled says that
	// it is not woken for a list that it has not given: it gives others, or slept when the feed
	// connected.
	woken   time.Time
	settled bool
	// empty is what is known of a list that is empty all of a sudden.
	empty emptylist.Watch
}

// timing is when a list was last fetched, and when it is to be fetched again.
type timing struct {
	started   time.Time // when the last fetch began
	due       time.Time // when the next one is due, zero if none is planned
	aged      time.Time // when it is for no other reason than the list's age
	notBefore time.Time // until when the upstream wants to be left alone
}

// makeDue makes the next fetch due: now, unless the last one began less than
// pause ago or the upstream wants to be left alone.
func (t *timing) makeDue(pause time.Duration) {
	t.due = later(later(time.Now(), t.started.Add(pause)), t.notBefore)
}

// hasten makes the next fetch due at that time, unless it is due sooner.
func (t *timing) hasten(at time.Time) {
	t.aged = time.Time{}
	if t.due.IsZero() || at.Before(t.due) {
		t.due = at
	}
}

// dueByAge reports whether the next fetch is due for no other reason than the list's age.
func (t *timing) dueByAge() bool { return !t.due.IsZero() && t.due.Equal(t.aged) }

// pinned returns the list as the feed was given it last, or nil.
func (l *List) pinned() *cache.Entry { return l.feed.cache.Pinned(l.feed.revision, l.kind) }

// current returns the fetch that brings what is newest, or nil. is says so of one
// that has begun.
func (l *List) current(v *variant.Record, is func(*Fetch) bool) *Fetch {
	for _, f := range l.fetches {
		if keyOf(f.variant) == keyOf(v) && (!f.begun || is(f)) {
			return f
		}
	}
	return nil
}

// refreshing reports whether the feed's own snapshot is being fetched.
func (l *List) refreshing() bool {
	return slices.ContainsFunc(l.fetches, func(f *Fetch) bool { return f.variant == nil })
}

// fetchesBy reports whether a fetch of the feed's own snapshot is under way, or
// due by then.
func (l *List) fetchesBy(t time.Time) bool {
	return l.refreshing() || !l.due.IsZero() && !l.due.After(t)
}

// announceDone wakes those who wait for the feed's own snapshot.
func (l *List) announceDone() {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	if l.nextDone != nil {
		close(l.nextDone)
		l.nextDone = nil
	}
}

// remove takes a fetch that is done off the list.
func (l *List) remove(f *Fetch) {
	l.fetches = slices.DeleteFunc(l.fetches, func(other *Fetch) bool { return other == f })
}

// newRetry says how long to wait between attempts: from a quarter of a
// second, doubling, up to half a minute, each give or take a half.
func newRetry() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 250 * time.Millisecond
	b.Multiplier = 2
	b.RandomizationFactor = 0.5
	b.MaxInterval = 30 * time.Second
	return b
}
