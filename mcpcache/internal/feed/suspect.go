package feed

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// suspectSession records that the upstream may have been restarted, and may have lost its sessions.
// The next answer to a legacy feed shows whether it has. A modern feed has no session.
func (f *Feed) suspectSession() {
	if f.revision.Era() == revision.Legacy {
		f.suspected.CompareAndSwap(0, time.Now().UnixNano())
	}
}

// suspectIfGone calls suspectSession if err says that the upstream cannot be reached.
func (f *Feed) suspectIfGone(err error) {
	if client.Unreachable(err) {
		f.suspectSession()
	}
}

// suspectAfter decides what a failure to connect means for the sessions of clients. If
// the upstream cannot be reached, it may have lost them. If the upstream refuses this feed, no later
// answer would end an earlier suspicion. Then the sessions count as lost.
func (f *Feed) suspectAfter(err error, state State) {
	if state == Down {
		f.suspectIfGone(err)
	} else if f.suspected.Swap(0) != 0 {
		f.group.lose()
	}
}

// trust records that the upstream has answered, in the feed's session, a request that
// was sent at that time: a suspicion from before is over.
func (f *Feed) trust(asked time.Time) {
	f.group.single.trusted(asked)
	if since := f.suspected.Load(); since != 0 && asked.UnixNano() >= since {
		f.suspected.CompareAndSwap(since, 0)
	}
}

// SuspectSession tells the feed that a client could not connect to the upstream, so that the
// feed finds out whether it has been restarted. A feed of a revision that the upstream
// does not speak ignores it.
func (f *Feed) SuspectSession() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == Unsupported {
		return
	}
	f.suspectSession()
	for _, l := range f.lists {
		if l.offered && l.failure == nil {
			l.hasten(later(time.Now(), l.started.Add(f.policy().Refresh)))
		}
	}
	flight.Signal(f.wake)
}

// SuspectsSession reports whether it is uncertain that the upstream still has its sessions: it
// could not be reached, or has ended the feed's stream, and has not answered since.
func (f *Feed) SuspectsSession() bool { return f.suspected.Load() != 0 }

// lostBy returns the failure of the list if the session is lost by that, and nil otherwise. If a list fails that
// the session has delivered, the session may be lost. The feed finds that out in the background, and ends the
// connection if it is.
// The caller holds the feed's mu.
func (l *List) lostBy(c *connection) error {
	if l.failure == nil {
		return nil
	}
	err := l.failure.Err
	if c.Lost(err) {
		l.failure = nil
		return err
	}
	if l.delivered && !c.replacing && c.MayBeLost(err) {
		l.delivered, c.replacing = false, true // once
		l.feed.background.Go(func() { c.openAnother(err) })
	}
	return nil
}

// openAnother opens a session to take the place of this one. If that is refused, too, or this one is
// answered all the same, the session is not what was refused.
func (c *connection) openAnother(err error) {
	f := c.feed
	defer func() { _ = recover() }() // this session goes on
	another, refused := f.open(c.ctx)
	if refused == nil {
		if answered, _ := ping(c.ctx, c.Session); answered {
			f.group.closeSession(another)
		} else {
			f.next.Store(another)
			f.group.lose() // at once: the feed may have to wait before it goes on in the other session
			c.end(err)
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c.replacing = false
}

// isAlive reports whether the upstream answers in a session, and returns the answer by
// which it may have lost that. Without an answer it is neither. A 503 counts as an answer: only another session
// shows what it means.
func isAlive(ctx context.Context, s *client.Session) (alive bool, lost error) {
	answered, refused := ping(ctx, s)
	if status, _ := errors.AsType[*client.StatusError](refused); status != nil && status.Status == http.StatusServiceUnavailable && status.Code == 0 {
		return true, nil
	}
	return answered, refused
}

// ping sends a ping in a session. It reports whether the upstream has answered, and returns a refusal that may be about
// the session. An upstream that stays silent has done neither.
func ping(ctx context.Context, s *client.Session) (answered bool, refused error) {
	err := s.Ping(ctx)
	if !client.NotOffered(err) && (s.Lost(err) || s.MayBeLost(err)) {
		return false, err
	}
	return err == nil || client.IsAnswer(err), nil
}
