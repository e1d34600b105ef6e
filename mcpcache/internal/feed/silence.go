package feed

import (
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// compareSilence records whether a fetch for the feed's own snapshot has found a
// change that was not announced. The caller holds the feed's mu.
func (l *List) compareSilence(before, now *cache.Entry) {
	c := l.feed.conn
	if before == nil || l.kind == revision.Discover || before.Body.ItemsDigest == now.Body.ItemsDigest ||
		!before.Mark.SameEpoch(now.Mark) || !l.feed.cache.Current(l.kind, now.Mark) || before.Fetched.Before(c.opened) {
		return
	}
	switch {
	case !c.Announces(l.kind), c.listened.IsZero():
		l.notices.Catch()
	case c.listening && !before.Fetched.Before(c.listened):
		// Otherwise a notice may have been lost while no stream was open.
		l.notices.Find(time.Now())
	}
}

// compareNotices records whether what has been announced since the fetch before is a change.
// The caller holds the feed's mu.
func (l *List) compareNotices(before, now *cache.Entry) {
	if before != nil && !l.missed.After(before.Asked) && l.notices.Fetched(!before.Mark.SameEpoch(now.Mark), before.Body.Digest == now.Body.Digest) {
		l.feed.group.logger.Load().Warn("upstream announces changes of a list that stays the same: the feed follows its notices ever more slowly",
			zap.Stringer("kind", l.kind), zap.Stringer("revision", l.feed.revision))
	}
}

// AnnouncesInVain reports whether the upstream announces changes of the list that are none.
func (l *List) AnnouncesInVain() bool {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	return l.notices.InVain()
}
