package variant

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/emptylist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// maxConflicts is how often, between two changes, a list that was fetched as
	// a variant's client may have turned out to be none of those that its clients
	// were given. Then there is no such thing as the list of that variant.
	maxConflicts = 3
	// conflictsFor is for how long conflicts count: an upstream that does not
	// announce its changes makes some too.
	conflictsFor = time.Minute
)

type lists [revision.Count][revision.NumKinds]list

// list is what is known of one list of a variant.
type list struct {
	seen      atomic.Pointer[cache.Seen]
	conflicts atomic.Pointer[conflicts]
	differed  atomic.Bool
	paged     atomic.Bool
	private   atomic.Bool
	// base is the ItemsDigest of the feed's snapshot when the list was last
	// compared with it.
	base atomic.Pointer[[32]byte]

	mu sync.Mutex
	// full is the moment of the last list with items that was fetched as a client
	// of the variant, nil if there was none; empty is what is known of those
	// without any that have come since. Guarded by mu.
	full  *cache.Mark
	empty emptylist.Watch
}

// listOf names one list of a variant.
type listOf struct {
	revision revision.Revision
	kind     revision.Kind
}

// Scout joins the request for a list that goes to the upstream while others wait: its answer shows
// what they may be given. With first, that is the caller's own request, and the caller has to let
// the flight land.
func (r *Record) Scout(rev revision.Revision, k revision.Kind) (s *flight.Flight[struct{}], first bool) {
	return r.scouts.Join(listOf{rev, k})
}

type conflicts struct {
	mark cache.Mark
	last time.Time
	n    int
}

// Seen returns the list that the upstream last gave to a client of the variant,
// or nil.
func (r *Record) Seen(rev revision.Revision, k revision.Kind) *cache.Seen {
	return r.lists[rev][k].seen.Load()
}

// See records what list a client of the variant was given. snapshot is the
// feed's, nil if there is none: it tells whether the variant has a list of its
// own.
func (r *Record) See(rev revision.Revision, k revision.Kind, s *cache.Seen, snapshot *cache.Entry) {
	l := &r.lists[rev][k]
	earlier := l.seen.Swap(s)
	l.compare(s, snapshot)
	r.reportAgreement(earlier, s, snapshot)
}

// reportAgreement calls agreed if clients of the variant now get the feed's snapshot, and did not before.
// snapshot may be nil.
func (r *Record) reportAgreement(earlier, now *cache.Seen, snapshot *cache.Entry) {
	if r.agreed != nil && snapshot != nil && now.Agrees(snapshot) && !earlier.Agrees(snapshot) {
		r.agreed(snapshot.Revision, snapshot.Kind)
	}
}

// Confirm is See for e, which was fetched as a client of the variant. It reports
// whether that is not another list than a client itself was given.
func (r *Record) Confirm(s *cache.Seen, e, snapshot *cache.Entry) bool {
	l := &r.lists[e.Revision][e.Kind]
	for {
		earlier := l.seen.Load()
		if earlier.Contradicts(e) {
			return false
		}
		if l.seen.CompareAndSwap(earlier, s) {
			l.compare(s, snapshot)
			r.reportAgreement(earlier, s, snapshot)
			return true
		}
	}
}

func (l *list) compare(s *cache.Seen, snapshot *cache.Entry) {
	if snapshot != nil {
		base := snapshot.Body.ItemsDigest
		l.base.Store(&base)
	}
	switch {
	case snapshot == nil:
	case s.Agrees(snapshot):
		l.differed.Store(false)
	case s.Differs(snapshot):
		l.differed.Store(true)
	}
}

// IsLatest reports whether e is the list that clients of the variant got last. It also requires that the
// feed's snapshot still has the items that it had when the two were compared. Otherwise the upstream has
// changed something, and the variant's list may have changed too.
func (r *Record) IsLatest(e, snapshot *cache.Entry) bool {
	l := &r.lists[e.Revision][e.Kind]
	base := l.base.Load()
	return l.seen.Load().Agrees(e) && (base == nil || snapshot == nil || *base == snapshot.Body.ItemsDigest)
}

// SeePages records that a client of the variant was given the list in pages:
// what one request brings does not tell the whole.
func (r *Record) SeePages(rev revision.Revision, k revision.Kind) { r.lists[rev][k].paged.Store(true) }

// Paged reports whether a client of the variant has been given the list in pages.
func (r *Record) Paged(rev revision.Revision, k revision.Kind) bool {
	return r.lists[rev][k].paged.Load()
}

// SeePublic records whether what the feed was last given as a client of the variant is public.
func (r *Record) SeePublic(rev revision.Revision, k revision.Kind, public bool) {
	r.lists[rev][k].private.Store(!public)
}

// Private reports whether the feed was last given a list that is not public as a client of the variant.
func (r *Record) Private(rev revision.Revision, k revision.Kind) bool {
	return r.lists[rev][k].private.Load()
}

// Believes reports whether e, which was fetched as a client of the variant and
// asked for at begun, may be what its clients are given: see [emptylist.Watch].
func (r *Record) Believes(e *cache.Entry, begun time.Time, refresh time.Duration) bool {
	l := &r.lists[e.Revision][e.Kind]
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Body.Items > 0:
		mark := e.Mark // not to keep the entry
		l.full = &mark
	case l.full != nil && !l.empty.Believes(begun, !l.full.SameEpoch(e.Mark), refresh):
		return false
	default:
		l.full = nil
	}
	l.empty.Full()
	return true
}

// Differed reports whether clients of the variant, when that could last be told,
// were given another list than the feed.
func (r *Record) Differed(rev revision.Revision, k revision.Kind) bool {
	return r.lists[rev][k].differed.Load()
}

// Conflict records that a list that was fetched as a client of the variant is
// none that such a client was given. What was seen counts no more.
func (r *Record) Conflict(rev revision.Revision, k revision.Kind, m cache.Mark) {
	l := &r.lists[rev][k]
	l.seen.Store(nil)
	count := 1
	if before := l.conflicts.Load(); before.count(m) > 0 {
		count += before.n
	}
	l.conflicts.Store(&conflicts{m, time.Now(), count})
}

// Hopeless reports whether the variant has had so many conflicts lately and since
// the last change that its clients have to ask for themselves for a while.
func (r *Record) Hopeless(rev revision.Revision, k revision.Kind, m cache.Mark) bool {
	return r.lists[rev][k].conflicts.Load().count(m) >= maxConflicts
}

// count returns how many of the conflicts still count for what has mark m.
func (c *conflicts) count(m cache.Mark) int {
	if c == nil || !c.mark.SameEpoch(m) || time.Since(c.last) >= conflictsFor {
		return 0
	}
	return c.n
}
