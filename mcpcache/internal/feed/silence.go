package feed

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// silence is what is known of whether the upstream announces changes of a kind, which
// it may claim and not do. It is guarded by Feed.mu.
type silence struct {
	// announced says that a notice has been seen.
	announced bool
	// caught says that the list has changed without a notice.
	caught bool
	// found is when a change was found whose notice may still come; zero if there is none.
	found time.Time
	// checked is when the list was last fetched to find out.
	checked time.Time
}

// lateNotice is how long after a change was found its notice may come.
const lateNotice = time.Second

// proofEach is how often, after calls, an upstream that claims to announce changes is
// checked, until it has announced one.
const proofEach = 10 * time.Second

// notice records that a change was announced.
func (s *silence) notice(now time.Time) {
	s.announced = true
	if now.Sub(s.found) <= lateNotice {
		s.found = time.Time{}
	}
}

// checkOverdue notes whether a notice has not come in time.
func (s *silence) checkOverdue(now time.Time) {
	if !s.found.IsZero() && now.Sub(s.found) > lateNotice {
		s.found, s.caught = time.Time{}, true
	}
}

// compareSilence records whether a fetch for the feed's own snapshot has found a
// change that was not announced. The caller holds f.mu.
func (f *Feed) compareSilence(s *slot, k revision.Kind, before, now *cache.Entry) {
	if before == nil || k == revision.Discover || before.Body.ItemsDigest == now.Body.ItemsDigest ||
		!before.Mark.SameEpoch(now.Mark) || !f.cache.Current(k, now.Mark) || before.Fetched.Before(f.opened) {
		return
	}
	switch {
	case !f.session.Announces(k), f.listened.IsZero():
		s.silence.caught = true
	case f.listening && !before.Fetched.Before(f.listened) && s.silence.found.IsZero():
		// Otherwise a notice may have been lost while no stream was open.
		s.silence.found = time.Now()
	}
}

// isSilent reports whether the upstream has been caught: a list of kind k has changed
// without a notice.
func (f *Feed) isSilent(k revision.Kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.slots[k]
	s.silence.checkOverdue(time.Now())
	return s.offered && s.silence.caught
}

// MayBeSilent returns the kinds of lists that a call may change without a notice: the
// upstream does not announce changes, or has been caught, or is due to be checked.
func (f *Feed) MayBeSilent() (kinds revision.KindSet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == nil {
		return 0
	}
	now := time.Now()
	proof := max(proofEach, f.policy().Refresh)
	for _, k := range revision.Kinds() {
		s := &f.slots[k]
		if !s.offered || k == revision.Discover {
			continue
		}
		s.silence.checkOverdue(now)
		if s.silence.caught || !f.session.Announces(k) || !f.listening ||
			!s.silence.announced && now.Sub(s.silence.checked) >= proof {
			kinds |= revision.SetOf(k)
		}
	}
	return kinds
}

// CheckSilence has kind k fetched in the background, and reports whether the
// upstream has been caught: see [Feed.isSilent].
func (f *Feed) CheckSilence(k revision.Kind) (silent bool) {
	f.mu.Lock()
	f.slots[k].silence.checked = time.Now()
	f.mu.Unlock()
	f.Recheck(k)
	return f.isSilent(k)
}
