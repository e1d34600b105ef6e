// Package feed keeps the snapshots of one upstream, the MCP server, up to date. It decides when to
// fetch. A [Feed] has a session of our own with the upstream at one revision. In the session it
// fetches every kind and listens for change notices. It fetches again when the upstream announces
// a change, when a lifetime ends, or when a caller needs a list. It retries for ever, and never
// takes a good snapshot away.
//
// It knows nothing of how to speak with an upstream, which the package client does. It knows
// nothing of clients' requests, of Caddy, and of where snapshots are kept besides the cache.
package feed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// Feed is the feed of one revision. Its methods may be called from several
// goroutines at once.
type Feed struct {
	findings

	revision revision.Revision
	began    time.Time
	client   *client.Client
	cache    *cache.Cache
	group    *Group // has what all feeds of the upstream share
	// again says that this is not the first attempt to connect.
	again bool
	// suspected is since when it is uncertain whether the upstream still has its
	// sessions, in Unix nanoseconds; 0 if it is not.
	suspected atomic.Int64
	// next is a session that was opened to take the place of the present one.
	next atomic.Pointer[client.Session]
	// waits says that the feed waits for those before it sends anything.
	waits atomic.Bool

	wake     chan struct{} // something has changed: look again
	retryNow chan struct{} // the upstream has answered a client, or a client waits: try to connect

	// background has the goroutines that a session starts.
	background sync.WaitGroup

	// changing is held while a state is derived and entered, so that an older one
	// cannot replace a newer one. It is locked before mu.
	changing sync.Mutex

	mu      sync.Mutex
	state   State
	since   time.Time
	useless bool // none of the lists that are offered can be used
	failure *Failure
	absence absence
	conn    *connection // nil: the feed is not connected
	lists   [revision.NumKinds]*List

	// first is closed when every kind has been tried once, or the upstream
	// could not be reached.
	first     chan struct{}
	firstOnce sync.Once
}

// findings are what a feed has found out about the upstream. Requests ask for them without waiting.
type findings struct {
	// server is the upstream's last description of itself; nil before the first session.
	server atomic.Pointer[client.ServerInfo]
	// unsupported says that the state is [Unsupported], down that all lists fail; delivered,
	// that the upstream has delivered lists.
	unsupported, down, delivered atomic.Bool
}

// Server returns what the upstream has said of itself: the result of initialize or
// server/discover that opened the last session, or that the last refresh of
// [revision.Discover] brought. It returns nil before the first session. What it
// returns is not changed afterwards, and stays when the upstream is gone.
func (f *findings) Server() *client.ServerInfo { return f.server.Load() }

// Speaks reports whether the upstream has spoken the feed's revision, and has not been found
// to speak it no more.
func (f *findings) Speaks() bool { return f.server.Load() != nil && !f.unsupported.Load() }

// IsUnsupported reports whether the upstream is known not to speak the feed's revision.
func (f *findings) IsUnsupported() bool { return f.unsupported.Load() }

// IsDown reports whether the upstream cannot be reached, or gives no list that can be used.
func (f *findings) IsDown() bool { return f.down.Load() }

// HasDelivered reports whether every list has been asked for once, and not all in vain.
func (f *findings) HasDelivered() bool { return f.delivered.Load() }

func newFeed(r revision.Revision, g *Group) *Feed {
	f := &Feed{
		revision: r, began: time.Now(), cache: g.cache, group: g,
		wake: make(chan struct{}, 1), retryNow: make(chan struct{}, 1),
		state: Connecting, since: time.Now(), first: make(chan struct{}),
	}
	f.client = g.newClient(r, g.clientPolicy, f.notice)
	for k := range f.lists {
		f.lists[k] = &List{feed: f, kind: revision.Kind(k), retry: newRetry()}
	}
	return f
}

// List returns the list of a kind.
func (f *Feed) List(k revision.Kind) *List { return f.lists[k] }

func (f *Feed) policy() *Policy { return f.group.policy.Load() }

// Attempted is closed once the feed has tried to fetch every kind, has found
// that it cannot, or has ended.
func (f *Feed) Attempted() <-chan struct{} { return f.first }

// Began is when the feed began to run.
func (f *Feed) Began() time.Time { return f.began }

// run connects, serves and connects again until ctx ends.
func (f *Feed) run(ctx context.Context) {
	stop := f.cache.Watch(f.changed)
	defer stop()
	defer func() {
		f.background.Wait()
		if s := f.next.Load(); s != nil {
			f.group.closeSession(s)
		}
	}()
	defer f.firstOnce.Do(func() { close(f.first) })
	retry := newRetry()
	if f.waits.Load() {
		f.awaitFirstEra(ctx)
	}
	for ctx.Err() == nil {
		err := f.connectAndServe(ctx, retry)
		if ctx.Err() != nil {
			return
		}
		if sleep(ctx, f.pause(err, retry), f.retryNow) {
			f.awaitFirstEra(ctx)
		}
	}
}

// connectAndServe opens a session and keeps the kinds up to date until it ends.
func (f *Feed) connectAndServe(ctx context.Context, retry *backoff.ExponentialBackOff) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("feed panicked: %v", p)
			f.fail("connect", err)
		}
	}()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer f.group.single.leave(f)
	alone := !slices.ContainsFunc(f.group.except(f.revision.Era()), (*Feed).works)
	another := f.next.Load() != nil // then clients' sessions count as lost already
	s, err := f.open(ctx)
	if err != nil {
		err = f.explainFailure(err, alone)
		if ctx.Err() == nil {
			f.fail("connect", err)
		}
		f.again = true
		return err
	}
	c := newConnection(ctx, end, f, s)
	defer close(c.ended)
	defer f.group.closeSession(s)
	if f.again && !another && s.HasID() {
		f.group.lose() // clients' sessions may be gone like the feed's
	}
	f.again = true
	f.connected(c)
	f.group.single.change(func() {}) // who waits for that looks again
	defer c.endVariants()
	defer f.disconnected()
	err = c.serve(retry)
	f.gaveWay(err, c.opened)
	return err
}

// open opens a session, unless one is open already to take the place of the last.
func (f *Feed) open(ctx context.Context) (*client.Session, error) {
	if s := f.next.Swap(nil); s != nil {
		return s, nil
	}
	if err := f.awaitSingleSession(ctx); err != nil {
		return nil, err
	}
	return f.openAs(ctx, nil)
}

// openAs opens a session as a client of variant v; nil is the feed's own.
func (f *Feed) openAs(ctx context.Context, v *variant.Record) (*client.Session, error) {
	s, err := f.client.NewSession(identityOf(v))
	if err != nil {
		return nil, err
	}
	if err := s.Open(requesthint.WithUpkeep(ctx)); err != nil {
		f.group.closeSession(s)
		return nil, err
	}
	return s, nil
}

// pause returns how long to wait before the next attempt to connect. An upstream that does
// not speak the revision is asked again early in the lifetime of a list, and then after
// twice as long each time.
func (f *Feed) pause(err error, retry *backoff.ExponentialBackOff) time.Duration {
	if !isUnsupported(err) {
		return max(retry.NextBackOff(), client.RetryAfter(err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.policy()
	f.absence.pause = min(max(p.TTL, 2*f.absence.pause), p.MaxTTL)
	return early(f.absence.pause)
}

// sleep waits for d, until it is woken, or until ctx ends, and reports whether all of d has
// passed.
func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-woken:
	case <-ctx.Done():
	}
	return false
}

// Poke tells the feed that the upstream has just answered a client of its revision, so
// that it tries again what had no answer, no more often than it refreshes. What was
// answered, but not as it should be, has pauses of its own. A feed that waits
// for the legacy era starts.
func (f *Feed) Poke() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hurry()
	f.absence.shown = true
	refresh := f.policy().Refresh
	switch {
	case f.failure == nil:
	case isUnsupported(f.failure.Err):
		f.retryShownEra(refresh)
	case client.NoAnswer(f.failure.Err) && time.Since(f.failure.At) >= refresh:
		flight.Signal(f.retryNow)
	}
	for _, l := range f.lists {
		if l.failure != nil && client.NoAnswer(l.failure.Err) && l.due.After(time.Now()) {
			l.makeDue(refresh)
			flight.Signal(f.wake)
		}
	}
}

// notice is called with the method of each notification in the feed's sessions.
func (f *Feed) notice(method string) {
	kinds := revision.Changed(method)
	if kinds == 0 {
		return
	}
	f.mu.Lock()
	for _, l := range f.lists {
		if kinds.Has(l.kind) {
			l.notices.Hear()
		}
	}
	f.mu.Unlock()
	f.cache.Bump(kinds)
	if observer := f.policy().Observer; observer != nil {
		observer.Noticed(kinds)
	}
}

// changed is called when the epochs of kinds have been bumped, whoever saw the notice.
// It makes them due. What was missed counts as no notice of the upstream's.
func (f *Feed) changed(change cache.Change) {
	f.mu.Lock()
	for _, l := range f.lists {
		if change.Kinds.Has(l.kind) && l.offered {
			l.noticeSeen = time.Now()
			if change.Missed {
				l.missed = l.noticeSeen
			} else {
				l.notices.Notice(l.noticeSeen)
			}
			pause := l.notices.Pause(f.policy().Refresh)
			l.makeDue(pause)
			l.variants.makeDue(pause)
		}
	}
	f.mu.Unlock()
	flight.Signal(f.wake)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// isClosed reports whether c is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
