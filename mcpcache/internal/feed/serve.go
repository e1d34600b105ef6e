package feed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// acknowledgeTimeout is how long hydrating waits for the stream of notices to
// open. Should it open later, everything is fetched once more.
const acknowledgeTimeout = time.Second

// steady is how long a stream of notices must have lasted for the next one to be
// opened without delay: some servers end every stream after a while.
const steady = 5 * time.Second

// serve keeps the lists right for as long as the session lasts, and returns
// why it ended.
func (c *connection) serve(retry *backoff.ExponentialBackOff) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	defer c.end(nil)
	if c.Listens() {
		opened := make(chan struct{})
		listening.Go(func() { c.listen(opened) })
		sleep(c.ctx, acknowledgeTimeout, opened)
	}
	c.hydrate()
	for {
		next, lost := c.step()
		if lost != nil {
			return lost
		}
		if c.feed.isIn(Ready) {
			retry.Reset()
		}
		if sleep(c.ctx, next, c.feed.wake); c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
	}
}

// listen keeps a stream of notices open. Whenever one opens, everything is
// fetched: what changed before that was announced to nobody.
func (c *connection) listen(opened chan struct{}) {
	f := c.feed
	defer func() {
		if p := recover(); p != nil {
			c.end(fmt.Errorf("listening panicked: %v", p))
		}
	}()
	tried := sync.OnceFunc(func() { close(opened) })
	retry, refusals := newRetry(), newRetry()
	refusals.MaxInterval = maxRefusedPause
	cut := false // a stream has ended, and none was refused since
	for {
		begun := time.Now()
		var wasOpen atomic.Bool
		err := c.Listen(c.ctx, func() {
			wasOpen.Store(true)
			f.trust(begun)
			if c.AnnouncesAny() {
				c.setListening(true, false)
				c.fetchAll() // the first time, hydrating does that
			}
			tried()
		}, func() { f.List(revision.Discover).Recheck() })
		tried()
		refused := client.IsAnswer(err)
		c.setListening(false, refused)
		if c.ctx.Err() != nil || errors.Is(err, client.ErrNoStream) {
			return
		}
		ask := cut && refused
		if wasOpen.Load() || ask && c.Lost(err) {
			f.suspectSession()
		}
		if wasOpen.Load() {
			ask, cut = true, true
			c.fetchAll()
			refusals.Reset()
		}
		if time.Since(begun) >= steady {
			retry.Reset()
		}
		if ask {
			f.List(revision.Discover).Recheck() // which a server that was redeployed may answer otherwise
		}
		// The answer to a POST decides whether the session goes on, once after the end of
		// a stream, and once after the first refusal of another.
		if ask && !c.fetchOne() && c.Lost(err) {
			c.end(err)
			return
		}
		pause := retry
		if refused {
			pause, cut = refusals, false
		}
		sleep(c.ctx, max(pause.NextBackOff(), client.RetryAfter(err)), f.retryNow)
	}
}

// maxRefusedPause is the longest pause between two tries to open a stream that the
// server refuses. Some take no new one for minutes after a stream was cut, as they have
// not missed that yet (render-mcp-server#26, mcp-sap-docs#75); others have none at all,
// and say so by another status than 405.
const maxRefusedPause = 10 * time.Minute

// errDescribed says that the upstream has described itself otherwise than at the beginning.
var errDescribed = errors.New("upstream offers or announces something else now")

// describe takes over what a modern upstream says of itself now. If that is about other
// lists or changes than before, such as after it was redeployed, the feed begins anew. If
// it has refused to be listened to, it is asked again. The caller holds the feed's mu.
func (c *connection) describe(now *client.ServerInfo) {
	c.feed.server.Store(now)
	before := c.Server()
	switch {
	case !maps.Equal(before.Capabilities, now.Capabilities), !maps.Equal(before.ListChanged, now.ListChanged):
		c.end(errDescribed)
	case c.Listens() && c.refused:
		flight.Signal(c.feed.retryNow)
	}
}

// hydrate marks every list that the upstream offers and the operator wants as
// due now. What failed on an earlier session is forgotten with it. However fast
// callers have the lists fetched, nobody sees a later state before this one.
func (c *connection) hydrate() {
	f := c.feed
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	c.hydrated = true
	restored := f.restored()
	for _, k := range revision.Kinds() {
		l := f.List(k)
		l.offer(f.policy().Kinds.Has(k) && c.Offers(k))
		if restored {
			l.attempted, l.settled = true, true
		} else {
			l.try()
		}
	}
	state, failure := f.derive()
	f.mu.Unlock()
	f.setState(state, failure)
}

// reconsider takes over a change of the kinds that the operator wants, and of how
// long they are fresh: what was fetched before lives by what counted then.
func (f *Feed) reconsider() {
	f.mu.Lock()
	if !f.conn.isHydrated() {
		f.mu.Unlock()
		return // the next hydrate takes it over
	}
	p := f.policy()
	for _, k := range revision.Kinds() {
		l := f.List(k)
		switch wanted := p.Kinds.Has(k) && (l.offered || f.conn.Offers(k)); {
		case wanted != l.offered:
			l.offer(wanted)
		case wanted && l.failure == nil && l.times != Times{} && l.times != p.Of(k):
			l.makeDue(p.Refresh)
		}
		l.try()
	}
	f.mu.Unlock()
	f.noteProgress()
	flight.Signal(f.wake)
}

// offer has the list fetched, or forgets it. The caller holds the feed's mu.
func (l *List) offer(offered bool) {
	l.offered, l.attempted = offered, !offered
	l.delivered, l.trial.on, l.trial.learned = false, false, false
	l.failure = nil
	l.come(nil, ErrNotFeeding)
	l.empty.Full()
	l.due = later(time.Now(), l.notBefore)
	if !offered {
		l.feed.cache.Unpin(l.feed.revision, l.kind)
	}
}

// fetchAll marks every list that is offered as due now.
func (c *connection) fetchAll() {
	f := c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != c {
		return
	}
	for _, l := range f.lists {
		if l.offered && c.Announces(l.kind) {
			l.makeDue(f.policy().Refresh)
			l.variants.makeDue(f.policy().Refresh)
		}
	}
	flight.Signal(f.wake)
}

// fetchOne marks the first list that is offered as due now: that is enough to find out
// whether the server still knows the session. It returns false if there is none.
func (c *connection) fetchOne() bool {
	f := c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lists {
		if l.offered && !l.trial.on && f.conn == c {
			l.makeDue(f.policy().Refresh)
			flight.Signal(f.wake)
			return true
		}
	}
	return false
}

// step starts what is due and returns how long nothing will be. It returns
// why the session is over, if a fetch has found out.
//
// One list is fetched at a time: a bridge to a slow program answers one after another
// (supergateway#142), and some servers count requests (cartesia-mcp#80).
func (c *connection) step() (time.Duration, error) {
	f := c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	next := time.Hour
	now := time.Now()
	var most *List // the one that has been due for longest
	busy := false
	for _, l := range f.lists {
		if !l.offered {
			continue
		}
		if err := l.lostBy(c); err != nil {
			return 0, err
		}
		if wait := l.refreshVariants(c, now); wait > 0 {
			next = min(next, wait)
		}
		busy = busy || l.leasing || l.refreshing()
		switch wait := l.due.Sub(now); {
		case l.due.IsZero():
		case wait > 0:
			next = min(next, wait)
		case l.rests(): // until it is woken
		case most == nil || most.trial.on && !l.trial.on || l.trial.on == most.trial.on && l.due.Before(most.due):
			most = l
		}
	}
	switch {
	case most == nil || busy:
	case most.dueForAge() != nil:
		most.takeLease(c, most.dueForAge())
	default:
		most.fetch(c, nil)
	}
	return next, nil // the end of a fetch wakes the feed for the next one
}

// early returns a moment somewhat before d is over, so that a list is fresh
// again before it goes stale, and instances do not ask all at once.
func early(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + 0.15*rand.Float64()))
}
