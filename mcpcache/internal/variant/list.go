package variant

import (
	"sync/atomic"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// maxConflicts is how often, between two changes, a list that was fetched as a
// variant's client may have turned out to be none of those that its clients were
// given. Then there is no such thing as the list of that variant.
const maxConflicts = 3

type lists [revision.Count][revision.NumKinds]list

// list is what is known of one list of a variant.
type list struct {
	seen      atomic.Pointer[cache.Seen]
	conflicts atomic.Pointer[conflicts]
	differed  atomic.Bool
	paged     atomic.Bool
	// base is the ItemsDigest of the feed's snapshot when the list was last
	// compared with it.
	base  atomic.Pointer[[32]byte]
	scout atomic.Pointer[Scout]
}

type conflicts struct {
	mark  cache.Mark
	count int
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
	l.seen.Store(s)
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

// Based reports whether the feed's snapshot still has the items that it had when
// the variant's list was compared with it. Otherwise the upstream has changed
// something, and the variant's list may have changed too.
func (r *Record) Based(rev revision.Revision, k revision.Kind, snapshot *cache.Entry) bool {
	base := r.lists[rev][k].base.Load()
	return base == nil || *base == snapshot.Body.ItemsDigest
}

// SeePages records that a client of the variant was given the list in pages:
// what one request brings does not tell the whole.
func (r *Record) SeePages(rev revision.Revision, k revision.Kind) { r.lists[rev][k].paged.Store(true) }

// Paged reports whether a client of the variant has been given the list in pages.
func (r *Record) Paged(rev revision.Revision, k revision.Kind) bool {
	return r.lists[rev][k].paged.Load()
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
	if before := l.conflicts.Load(); before != nil && before.mark.SameEpoch(m) {
		count += before.count
	}
	l.conflicts.Store(&conflicts{m, count})
}

// Hopeless reports whether the variant has had so many conflicts since the last
// change that its clients have to ask for themselves until the next one.
func (r *Record) Hopeless(rev revision.Revision, k revision.Kind, m cache.Mark) bool {
	c := r.lists[rev][k].conflicts.Load()
	return c != nil && c.count >= maxConflicts && c.mark.SameEpoch(m)
}
