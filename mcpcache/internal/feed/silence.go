package feed

import (
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// proofEach is how often, after calls, an upstream that claims to announce changes is
// checked, until it has announced one.
const proofEach = 10 * time.Second

// compareSilence records whether a fetch for the feed's own snapshot has found a
// change that was not announced. The caller holds f.mu.
func (f *Feed) compareSilence(s *slot, k revision.Kind, before, now *cache.Entry) {
	if before == nil || k == revision.Discover || before.Body.ItemsDigest == now.Body.ItemsDigest ||
		!before.Mark.SameEpoch(now.Mark) || !f.cache.Current(k, now.Mark) || before.Fetched.Before(f.opened) {
		return
	}
	switch {
	case !f.session.Announces(k), f.listened.IsZero():
		s.notices.Catch()
	case f.listening && !before.Fetched.Before(f.listened):
		// Otherwise a notice may have been lost while no stream was open.
		s.notices.Find(time.Now())
	}
}

// compareNotices records whether what has been announced since the fetch before is a change.
// The caller holds f.mu.
func (f *Feed) compareNotices(s *slot, k revision.Kind, before, now *cache.Entry) {
	if before != nil && !s.missed.After(before.Asked) && s.notices.Fetched(!before.Mark.SameEpoch(now.Mark), before.Body.Digest == now.Body.Digest) {
		f.group.logger.Load().Warn("upstream announces changes of a list that stays the same: the feed follows its notices ever more slowly",
			zap.Stringer("kind", k), zap.Stringer("revision", f.revision))
	}
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
		if s.notices.Caught(now) || !f.session.Announces(k) || !f.listening || !s.notices.Proven(now, proof) {
			kinds |= revision.SetOf(k)
		}
	}
	return kinds
}

// CheckSilence has kind k fetched in the background, and reports whether the
// upstream has been caught: the list has changed without a notice.
func (f *Feed) CheckSilence(k revision.Kind) (silent bool) {
	f.mu.Lock()
	s, now := &f.slots[k], time.Now()
	s.notices.Check(now)
	silent = s.notices.Caught(now) && s.offered
	f.mu.Unlock()
	f.Recheck(k)
	return silent
}

// AnnouncesInVain reports whether the upstream announces changes of kind k that are none.
func (f *Feed) AnnouncesInVain(k revision.Kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slots[k].notices.InVain()
}
