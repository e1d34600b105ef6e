package feed

import (
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

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

// AnnouncesInVain reports whether the upstream announces changes of kind k that are none.
func (f *Feed) AnnouncesInVain(k revision.Kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slots[k].notices.InVain()
}
