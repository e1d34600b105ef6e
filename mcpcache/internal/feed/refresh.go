package feed

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// ErrNotFeeding says that a kind cannot be refreshed: its feed is not
// connected, or the upstream or the operator does not offer it.
var ErrNotFeeding = errors.New("feed is not connected or does not keep this kind")

// errDisconnected says that the result of a refresh was dropped because the session
// had ended.
var errDisconnected = errors.New("feed was disconnected before the refresh ended")

// Refresh fetches a kind now, or joins a fetch that is under way, and returns what has
// changed.
func (f *Feed) Refresh(ctx context.Context, k revision.Kind) (Change, error) {
	unchanged := Change{Kind: k, Revision: f.revision}
	fetch := f.refreshNow(k)
	if fetch == nil {
		return unchanged, ErrNotFeeding
	}
	_, err := fetch.Wait(ctx)
	switch {
	case err != nil && client.NotOffered(err) && f.cache.Pinned(f.revision, k) == nil:
		return unchanged, ErrNotFeeding
	case err != nil:
		return unchanged, err
	case fetch.change.Revision == revision.Unknown:
		return unchanged, errDisconnected
	}
	return fetch.change, nil
}

func (f *Feed) refreshNow(k revision.Kind) *Fetch {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.slots[k]
	if f.session == nil || !s.offered {
		return nil
	}
	if fetch := s.current(nil, f.isCurrent(k)); fetch != nil {
		return fetch
	}
	return f.fetch(f.ctx, f.session, k, nil)
}

// Recheck has a kind fetched in the background, as soon as the policy's Refresh allows.
func (f *Feed) Recheck(k revision.Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recheck(&f.slots[k], f.policy().Refresh)
}

// recheck has a kind fetched in the background, no sooner than so long after the last fetch began. The caller
// holds f.mu.
func (f *Feed) recheck(s *slot, pause time.Duration) {
	if f.session == nil || !s.offered {
		return
	}
	if at := later(s.started.Add(pause), s.notBefore); s.failure == nil {
		s.hasten(later(time.Now(), at))
	}
	signal(f.wake)
}

// LookAgain has a kind fetched again, as soon as the policy's Refresh allows. It waits for that
// if it is under way or imminent, and no longer than ctx lasts.
func (f *Feed) LookAgain(ctx context.Context, k revision.Kind) {
	mark := f.cache.Doubt(k)
	f.Recheck(k)
	f.Await(ctx, k, mark)
}

// imminent is how soon a fetch must be due to be waited for.
const imminent = 100 * time.Millisecond

// Await waits until the feed has a snapshot that was asked for after m was returned by
// [cache.Cache.Doubt], until ctx ends, or until no fetch is under way or imminent. It
// returns the snapshot, which may still be an earlier one.
func (f *Feed) Await(ctx context.Context, k revision.Kind, m cache.Mark) *cache.Entry {
	for {
		f.mu.Lock()
		s := &f.slots[k]
		if s.nextDone == nil {
			s.nextDone = make(chan struct{})
		}
		next, coming := s.nextDone, f.session != nil && s.offered && s.fetchesBy(time.Now().Add(imminent))
		f.mu.Unlock()
		e := f.cache.Pinned(f.revision, k)
		if !coming || e == nil || e.Mark.AskedSince(m) {
			return e
		}
		select {
		case <-next:
		case <-ctx.Done():
			return e
		}
	}
}
