package feed

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// ErrNotFeeding says that a kind cannot be refreshed: its feed is not
// connected, or the upstream or the operator does not offer it.
var ErrNotFeeding = errors.New("feed is not connected or does not keep this kind")

// errDisconnected says that the result of a refresh was dropped because the session
// had ended.
var errDisconnected = errors.New("feed was disconnected before the refresh ended")

// Refresh fetches the list now, or joins a fetch that is under way, and returns what has
// changed.
func (l *List) Refresh(ctx context.Context) (Change, error) {
	unchanged := Change{Kind: l.kind, Revision: l.feed.revision}
	fetch := l.refreshNow()
	if fetch == nil {
		return unchanged, ErrNotFeeding
	}
	_, err := fetch.Wait(ctx)
	switch {
	case err != nil && client.NotOffered(err) && l.pinned() == nil:
		return unchanged, ErrNotFeeding
	case err != nil:
		return unchanged, err
	case fetch.change.Revision == revision.Unknown:
		return unchanged, errDisconnected
	}
	return fetch.change, nil
}

func (l *List) refreshNow() *Fetch {
	f := l.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn == nil || !l.offered {
		return nil
	}
	if fetch := l.current(nil, (*Fetch).isCurrent); fetch != nil {
		return fetch
	}
	return l.fetch(f.conn, nil)
}

// Recheck has the list fetched in the background, as soon as the policy's Refresh allows.
func (l *List) Recheck() {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	l.recheck(l.feed.policy().Refresh)
}

// recheck has the list fetched in the background, no sooner than so long after the last fetch began. The caller
// holds the feed's mu.
func (l *List) recheck(pause time.Duration) {
	if l.feed.conn == nil || !l.offered {
		return
	}
	if at := later(l.started.Add(pause), l.notBefore); l.failure == nil {
		l.hasten(later(time.Now(), at))
	}
	flight.Signal(l.feed.wake)
}

// LookAgain has the list fetched again, as soon as the policy's Refresh allows. It waits for that
// if it is under way or imminent, and no longer than ctx lasts.
func (l *List) LookAgain(ctx context.Context) {
	mark := l.feed.cache.Suspect(l.kind)
	l.Recheck()
	l.Await(ctx, mark)
}

// imminent is how soon a fetch must be due to be waited for.
const imminent = 100 * time.Millisecond

// Await waits until the feed has a snapshot that was asked for after m was returned by
// [cache.Changes.Suspect], until ctx ends, or until no fetch is under way or imminent. It
// returns the snapshot, which may still be an earlier one.
func (l *List) Await(ctx context.Context, m cache.Mark) *cache.Entry {
	f := l.feed
	for {
		f.mu.Lock()
		if l.nextDone == nil {
			l.nextDone = make(chan struct{})
		}
		next, coming := l.nextDone, f.conn != nil && l.offered && l.fetchesBy(time.Now().Add(imminent))
		f.mu.Unlock()
		e := f.cache.Pinned(f.revision, l.kind)
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
