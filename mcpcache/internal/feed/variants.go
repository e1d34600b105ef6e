package feed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

const (
	// maxVariants bounds the variants that a feed asks for at a time, and so its
	// sessions besides its own.
	maxVariants = 8
	// variantIdle is how long ago the feed must have last asked for a variant before
	// another one may take its place. So clients that make up variants cause no more
	// than maxVariants lists to be fetched in that time.
	variantIdle = time.Minute
	// apartIdle is the same for clients whose requests ask for something else than the feed:
	// a site may have more such ways to ask than there are places.
	apartIdle = 5 * time.Second
)

// variantRetry is how long after a failure the feed does not ask for a variant again:
// requests of its clients are forwarded meanwhile.
const variantRetry = 5 * time.Second

// askedVariant is a variant that a feed asks for, and the session for that if the
// upstream has sessions.
type askedVariant struct {
	record *variant.Record

	// Guarded by Feed.mu.
	used      time.Time // when the feed was last to ask for it
	notBefore time.Time
	fetches   int
	// opened is made by the fetch that opens the session, nil before.
	opened chan struct{}

	// What follows is there once opened is closed.
	session *client.Session
	err     error
	end     context.CancelFunc
}

// idle returns how long ago the feed must have last asked for the variant before another one
// may take its place.
func (a *askedVariant) idle() time.Duration {
	if a.record.AsksLikeFeed() {
		return variantIdle
	}
	return apartIdle
}

// keyOf returns the key of a variant in the cache; nil is the feed's own.
func keyOf(v *variant.Record) cache.Variant {
	if v == nil {
		return cache.Variant{}
	}
	return v.Key
}

// askedBy returns what stands for what the clients of a variant ask for; nil is the feed's own.
func askedBy(v *variant.Record) cache.Asked {
	if v == nil {
		return cache.Asked{}
	}
	return v.Client.Asked
}

// identityOf returns as which client to ask for a variant; nil is the feed's own.
func identityOf(v *variant.Record) *client.Identity {
	if v == nil {
		return nil
	}
	return &client.Identity{Capabilities: v.Client.Capabilities, Name: v.Client.Name, Language: v.Client.Language, Request: v.Client.Request}
}

// mayAskAs reports whether the feed may ask for a variant, and keeps a place for
// it. The caller holds the feed's mu.
func (c *connection) mayAskAs(v *variant.Record) bool {
	if v == nil {
		return true
	}
	now := time.Now()
	if a := c.variants[v.Key]; a != nil {
		a.used = now
		return !now.Before(a.notBefore)
	}
	if len(c.variants) >= maxVariants && !c.dropIdle(now) {
		return false
	}
	c.variants[v.Key] = &askedVariant{record: v, used: now}
	return true
}

// refreshVariants fetches the lists of variants that differ from the feed's and are in
// use, if that is due after a notice. It returns how long it is until then; 0 if it is
// not going to be due. The caller holds the feed's mu.
func (l *List) refreshVariants(c *connection, now time.Time) time.Duration {
	if l.variants.due.IsZero() {
		return 0
	}
	if wait := l.variants.due.Sub(now); wait > 0 {
		return wait
	}
	l.variants.due, l.variants.started = time.Time{}, now
	for _, a := range c.variants {
		switch {
		case !a.record.Differed(l.feed.revision, l.kind), !a.record.UsedSince(now.Add(-variantIdle)):
		case now.Before(a.notBefore):
			if l.variants.due.IsZero() || a.notBefore.Before(l.variants.due) {
				l.variants.due = a.notBefore
			}
		case len(l.fetches) < maxFetches && l.current(a.record, (*Fetch).isCurrent) == nil:
			l.fetch(c, a.record)
		}
	}
	if l.variants.due.IsZero() {
		return 0
	}
	return l.variants.due.Sub(now)
}

// dropIdle makes room for another variant, if there is one that the feed has not
// asked for lately. The caller holds the feed's mu.
func (c *connection) dropIdle(now time.Time) bool {
	var found *askedVariant
	for _, a := range c.variants {
		if a.fetches == 0 && now.Sub(a.used) >= a.idle() && (found == nil || a.used.Before(found.used)) {
			found = a
		}
	}
	if found == nil {
		return false
	}
	delete(c.variants, found.record.Key)
	c.endVariant(found)
	return true
}

// sessionAs returns the session in which the feed asks as a client of variant v: its own
// if v is nil, or if the upstream has no sessions.
func (c *connection) sessionAs(v *variant.Record) (*client.Session, error) {
	if v == nil || !c.HasID() {
		return c.Session, nil
	}
	c.feed.mu.Lock()
	a := c.variants[v.Key]
	if a == nil { // it was dropped meanwhile
		c.feed.mu.Unlock()
		return nil, errDisconnected
	}
	a.fetches++
	first := a.opened == nil
	if first {
		a.opened = make(chan struct{})
	}
	c.feed.mu.Unlock()
	defer func() {
		c.feed.mu.Lock()
		a.fetches--
		c.feed.mu.Unlock()
	}()
	if first {
		c.openFor(a)
	}
	select {
	case <-a.opened:
		return a.session, a.err
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

// openFor opens the session of a variant, and listens in it: what such a client is shown
// may change after it was opened. A panic is a failure of that alone.
func (c *connection) openFor(a *askedVariant) {
	defer close(a.opened)
	defer func() {
		if p := recover(); p != nil {
			a.session, a.err = nil, fmt.Errorf("opening a session as another client panicked: %v", p)
		}
	}()
	ctx, end := context.WithCancel(c.ctx)
	a.end = end
	if a.session, a.err = c.feed.openAs(ctx, a.record); a.err != nil || !c.Listens() || !a.session.Listens() {
		return
	}
	opened := make(chan struct{})
	done := sync.OnceFunc(func() { close(opened) })
	c.feed.background.Go(func() {
		defer func() { _ = recover() }() // fetches go on, notices come on the feed's own stream
		defer done()
		wasOpen := false
		_ = a.session.Listen(ctx, func() {
			wasOpen = true
			done()
		}, func() {})
		if wasOpen {
			c.renewSession(ctx, a)
		}
	})
	sleep(ctx, acknowledgeTimeout, opened)
}

// forgetSession ends the session of a variant after a fetch in it has failed. The next
// fetch opens another, after variantRetry.
func (c *connection) forgetSession(v *variant.Record) {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	if a := c.variants[v.Key]; a != nil && a.fetches == 0 {
		now := time.Now()
		c.variants[v.Key] = &askedVariant{record: v, used: now, notBefore: now.Add(variantRetry)}
		c.endVariant(a)
	}
}

// renewSession has the lists of a variant fetched in a new session, since the stream of
// its session has ended: changes since then were not announced in it.
func (c *connection) renewSession(ctx context.Context, a *askedVariant) {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	if ctx.Err() != nil || c.variants[a.record.Key] != a {
		return
	}
	now := time.Now()
	next := now.Add(max(c.feed.policy().Refresh, time.Second))
	c.variants[a.record.Key] = &askedVariant{record: a.record, used: a.used, notBefore: next}
	c.endVariant(a)
	for _, l := range c.feed.lists {
		if l.offered {
			l.variants.due = later(l.variants.due, next)
		}
	}
	flight.Signal(c.feed.wake)
}

// endVariant ends the session of a variant, if it has one, in the background. The
// caller holds the feed's mu and has taken the variant off the list.
func (c *connection) endVariant(a *askedVariant) {
	if a.opened == nil {
		return
	}
	c.feed.background.Go(func() {
		defer func() { _ = recover() }() // the upstream ends the session by itself
		<-a.opened
		if a.end == nil {
			return
		}
		a.end()
		if a.session != nil {
			c.feed.group.closeSession(a.session)
		}
	})
}

// endVariants ends the sessions of all variants.
func (c *connection) endVariants() {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	for _, a := range c.variants {
		c.endVariant(a)
	}
	clear(c.variants)
}
