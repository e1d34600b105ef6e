package feed

import (
	"context"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Turns says which of several instances fetches a list for all of them.
type Turns interface {
	// Turn returns the list that another instance has fetched since own was, or nothing while
	// one does, or else end: then the caller fetches it, and calls end after that.
	Turn(ctx context.Context, own *cache.Entry) (e *cache.Entry, end func())
}

const (
	// turnPause is how often a feed looks whether what another instance fetches is there.
	turnPause = 250 * time.Millisecond
	// turnPatience is how long after its list went stale it fetches by itself.
	turnPatience = 5 * time.Second
)

// aged returns the feed's list if it is due again for its age alone, and another instance may
// fetch the next: no change has been announced since, nor is one suspected. Otherwise it
// returns nil. The caller holds f.mu.
func (f *Feed) aged(k revision.Kind) *cache.Entry {
	slot, own := &f.slots[k], f.cache.Pinned(f.revision, k)
	switch {
	case f.policy().Turns == nil, own == nil, k == revision.Discover, !slot.dueByAge(),
		own.Mark != f.cache.Mark(k), own.Lifetime > 0 && -own.Left(time.Now()) > turnPatience:
		return nil
	}
	return own
}

// takeTurn fetches a list that comes after own in the background, unless another instance has
// fetched that, or does. The caller holds f.mu.
func (f *Feed) takeTurn(ctx context.Context, s *client.Session, k revision.Kind, own *cache.Entry) {
	slot, due := &f.slots[k], f.slots[k].due
	slot.turning = true
	f.background.Go(func() {
		e, end := f.policy().Turns.Turn(ctx, own)
		var fetch *Fetch
		f.mu.Lock()
		slot.turning = false
		switch {
		case !slot.dueByAge() || !slot.due.Equal(due) || !slot.offered || f.session != s:
			e = nil // there is another reason to fetch it by now, or none any more
		case e != nil:
			slot.due = time.Time{} // done says when the next one is
		case end != nil:
			fetch = f.fetch(ctx, s, k, nil)
		default:
			slot.due = time.Now().Add(turnPause)
			slot.aged = slot.due
		}
		f.mu.Unlock()
		signal(f.wake)
		if e != nil {
			f.done(ctx, s, k, f.another(own, e))
		}
		if fetch != nil {
			<-fetch.done
		}
		if end != nil {
			end()
		}
	})
}

// another is a fetch that has brought what another instance has fetched since own was. That is
// as new as own to who has heard of a change: it may have been asked for before that.
func (f *Feed) another(own, e *cache.Entry) *Fetch {
	policy := f.policy()
	e.Mark, e.Lifetime = own.Mark, policy.Lifetime(e.Kind, e.Lifetime, e.Body.HasTTL)
	e.Partition = policy.Partition(e.Body.Scope)
	return &Fetch{mark: own.Mark, elsewhere: true, times: policy.Of(e.Kind), entry: e, done: make(chan struct{})}
}
