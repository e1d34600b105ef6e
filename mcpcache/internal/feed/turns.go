package feed

import (
	"context"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Turns says which of several instances fetches a list for all of them.
type Turns interface {
	// Turn returns the list that another instance has fetched since own was, or nothing while
	// one does, or else end: then the caller fetches it, and calls end after that.
	Turn(ctx context.Context, own *cache.Entry) (e *cache.Entry, end func())
	// Several reports whether there may be other instances, which tell this one of changes.
	Several() bool
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
	own := f.cache.Pinned(f.revision, k)
	if f.policy().Turns == nil || own == nil || k == revision.Discover || !f.slots[k].dueByAge() || own.Mark != f.cache.Mark(k) {
		return nil
	}
	return own
}

// waitsFor reports whether it is worth to wait for what another instance fetches after own.
func waitsFor(own *cache.Entry) bool {
	return own.Lifetime == 0 || -own.Left(time.Now()) <= turnPatience
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
		case e == nil && (end != nil || !waitsFor(own)):
			fetch = f.fetch(ctx, s, k, nil)
			fetch.aged = true
		default:
			slot.due = time.Now().Add(turnPause) // unless done says otherwise
			slot.aged = slot.due
			if slot.coming == nil {
				slot.coming = &Fetch{Flight: flight.New[*cache.Entry](), begun: true, mark: own.Mark}
			}
		}
		f.mu.Unlock()
		signal(f.wake)
		if e != nil {
			f.done(ctx, s, k, f.another(own, e))
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
// as well wait for that; otherwise nil. The caller holds f.mu.
func (f *Feed) comingFrom(k revision.Kind) *Fetch {
	if f.aged(k) == nil {
		return nil
	}
	return f.slots[k].coming
}

// come gives those who wait for another instance what there is instead: the list as it is now,
// or why there is none. The caller holds f.mu.
func (s *slot) come(e *cache.Entry, err error) {
	if s.coming == nil {
		return
	}
	if err == nil {
		s.coming.mark = e.Mark
	}
	s.coming.Land(e, err)
	s.coming = nil
}

// another is a fetch that has brought what another instance has fetched since own was. That is
// as new as own to who has heard of a change: it may have been asked for before that.
func (f *Feed) another(own, e *cache.Entry) *Fetch {
	policy := f.policy()
	e.Mark, e.Lifetime = own.Mark, policy.Lifetime(e.Kind, e.Lifetime, e.Body.HasTTL)
	e.Partition = policy.Partition(e.Body.Scope)
	return &Fetch{mark: own.Mark, elsewhere: true, times: policy.Of(e.Kind), entry: e}
}
