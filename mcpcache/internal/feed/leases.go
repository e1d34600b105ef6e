package feed

import (
	"context"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Leases decides which of several instances fetches a list for all of them.
type Leases interface {
	// Lease returns the list that another instance has fetched since own. It returns nothing while
	// another instance fetches it. Otherwise it returns end: the caller fetches the list, and then
	// calls end.
	Lease(ctx context.Context, own *cache.Entry) (e *cache.Entry, end func())
	// Several reports whether there may be other instances, which tell this one of changes.
	Several() bool
}

const (
	// leasePause is how often a feed looks whether what another instance fetches is there.
	leasePause = 250 * time.Millisecond
	// leasePatience is how long after its list has gone stale a feed fetches it without a lease.
	leasePatience = 5 * time.Second
)

// dueForAge returns the feed's list if its refresh is due because of its age alone. Then another
// instance may fetch it. If the upstream has announced a change since, or the feed suspects one, it
// returns nil. The caller holds the feed's mu.
func (l *List) dueForAge() *cache.Entry {
	f := l.feed
	own := f.cache.Pinned(f.revision, l.kind)
	if f.policy().Leases == nil || own == nil || l.kind == revision.Discover || !l.dueByAge() || own.Mark != f.cache.Mark(l.kind) {
		return nil
	}
	return own
}

// waitsFor reports whether it is worth to wait for what another instance fetches after own.
func waitsFor(own *cache.Entry) bool {
	return own.Lifetime == 0 || -own.Left(time.Now()) <= leasePatience
}

// takeLease fetches the list that comes after own, in the background. It does not if another
// instance has fetched the list, or fetches it now. The caller holds the feed's mu.
func (l *List) takeLease(c *connection, own *cache.Entry) {
	f := l.feed
	due := l.due
	l.leasing = true
	f.background.Go(func() {
		e, end := f.policy().Leases.Lease(c.ctx, own)
		var fetch *Fetch
		f.mu.Lock()
		l.leasing = false
		switch {
		case !l.dueByAge() || !l.due.Equal(due) || !l.offered || f.conn != c:
			e = nil // there is another reason to fetch it by now, or none any more
		case e == nil && (end != nil || !waitsFor(own)):
			fetch = l.fetch(c, nil)
			fetch.aged = true
		default:
			l.due = time.Now().Add(leasePause) // unless done says otherwise
			l.aged = l.due
			if l.coming == nil {
				l.coming = &Fetch{Flight: flight.New[*cache.Entry](), begun: true, mark: own.Mark}
			}
		}
		f.mu.Unlock()
		flight.Signal(f.wake)
		if e != nil {
			l.another(own, e).done(c)
		}
		if fetch != nil {
			<-fetch.Landed()
		}
		if end != nil {
			end()
		}
	})
}

// comingFrom returns what brings the list that another instance fetches, for callers who may
// as well wait for that; otherwise nil. The caller holds the feed's mu.
func (l *List) comingFrom() *Fetch {
	if l.dueForAge() == nil {
		return nil
	}
	return l.coming
}

// come gives those who wait for another instance what there is instead: the list as it is now,
// or why there is none. The caller holds the feed's mu.
func (l *List) come(e *cache.Entry, err error) {
	if l.coming == nil {
		return
	}
	if err == nil {
		l.coming.mark = e.Mark
	}
	l.coming.Land(e, err)
	l.coming = nil
}

// another is a fetch that has brought what another instance has fetched since own was. That is
// as new as own to who has heard of a change: it may have been asked for before that.
func (l *List) another(own, e *cache.Entry) *Fetch {
	policy := l.feed.policy()
	e.Mark, e.Lifetime = own.Mark, policy.Lifetime(e.Kind, e.Lifetime, e.Body.HasTTL)
	e.Partition = policy.Partition(e.Body.Scope)
	return &Fetch{list: l, mark: own.Mark, elsewhere: true, times: policy.Of(e.Kind), entry: e}
}
