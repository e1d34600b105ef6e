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
	scout     atomic.Pointer[Scout]
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
	switch {
	case snapshot == nil:
	case s.Agrees(snapshot):
		l.differed.Store(false)
	case s.Differs(snapshot):
		l.differed.Store(true)
	}
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
