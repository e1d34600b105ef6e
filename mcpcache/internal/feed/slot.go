package feed

import (
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/announce"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/emptiness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// maxFetches bounds the fetches of one kind that are under way at once: for
// each of a few variants one from before the last change, whose callers came
// before it too, and one from after.
const maxFetches = 8

// slot is what a feed knows of one kind.
type slot struct {
	offered    bool // the upstream has it and the operator wants it
	attempted  bool // fetched at least once since the feed connected
	delivered  bool // fetched at least once with success since then
	fetches    []*Fetch
	noticeSeen time.Time // when a change was last announced
	missed     time.Time // when one may last have been announced that was not heard of
	started    time.Time // when the last fetch began
	due        time.Time // when the next one is due, zero if none is planned
	aged       time.Time // when it is for no other reason than the list's age
	turning    bool      // it is being found out whether another instance fetches it
	coming     *Fetch    // what waits for another instance to fetch it, or nil
	notBefore  time.Time // until when the upstream wants to be left alone
	retry      *backoff.ExponentialBackOff
	failure    *Failure
	notices    announce.Record
	calls      calls
	// variantsDue is when the lists of variants are to be fetched again, zero if
	// they are not; variantsStarted is when they last were.
	variantsDue, variantsStarted time.Time
	// nextDone is closed when the next fetch for the feed's own snapshot ends.
	nextDone chan struct{}
	// times are those that the last snapshot's lifetime is by.
	times Times
	// trial says that the kind is asked for though it was not offered, triedFor what was
	// offered then: see [Feed.try]. learned says that a client was given it, and the feed
	// has not been yet: see [Feed.Learn].
	trial, learned bool
	triedFor       map[string]bool
	// woken is when the upstream was woken last, zero once it has been asked since. settled says that
	// it is not woken for a list that it has not given: it gives others, or slept when the feed
	// connected.
	woken   time.Time
	settled bool
	// empty is what is known of a list that is empty all of a sudden.
	empty emptiness.Watch
}

// current returns the fetch that brings what is newest, or nil. is says so of one
// that has begun.
func (s *slot) current(v *variant.Record, is func(*Fetch) bool) *Fetch {
	for _, f := range s.fetches {
		if keyOf(f.variant) == keyOf(v) && (!f.begun || is(f)) {
			return f
		}
	}
	return nil
}

// ask makes the next fetch due: now, unless the last one began less than
// pause ago or the upstream wants to be left alone.
func (s *slot) ask(pause time.Duration) {
	s.due = later(later(time.Now(), s.started.Add(pause)), s.notBefore)
}

// hasten makes the next fetch due at that time, unless it is due sooner.
func (s *slot) hasten(at time.Time) {
	s.aged = time.Time{}
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
	}
}

// dueByAge reports whether the next fetch is due for no other reason than the list's age.
func (s *slot) dueByAge() bool { return !s.due.IsZero() && s.due.Equal(s.aged) }

// refreshing reports whether the feed's own snapshot is being fetched.
func (s *slot) refreshing() bool {
	return slices.ContainsFunc(s.fetches, func(f *Fetch) bool { return f.variant == nil })
}

// fetchesBy reports whether a fetch of the feed's own snapshot is under way, or
// due by then.
func (s *slot) fetchesBy(t time.Time) bool {
	return s.refreshing() || !s.due.IsZero() && !s.due.After(t)
}

// announceDone wakes those who wait for the feed's own snapshot.
func (s *slot) announceDone(f *Feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.nextDone != nil {
		close(s.nextDone)
		s.nextDone = nil
	}
}

// remove takes a fetch that is done off the list.
func (s *slot) remove(f *Fetch) {
	s.fetches = slices.DeleteFunc(s.fetches, func(other *Fetch) bool { return other == f })
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
