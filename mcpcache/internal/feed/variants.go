package feed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
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
// it. The caller holds f.mu.
func (f *Feed) mayAskAs(v *variant.Record) bool {
	if v == nil {
		return true
	}
	now := time.Now()
	if a := f.variants[v.Key]; a != nil {
		a.used = now
		return !now.Before(a.notBefore)
	}
	if len(f.variants) >= maxVariants && !f.dropIdle(now) {
		return false
	}
	f.variants[v.Key] = &askedVariant{record: v, used: now}
	return true
}

// refreshVariants fetches the lists of variants that differ from the feed's and are in
// use, if that is due after a notice. It returns how long it is until then; 0 if it is
// not going to be due. The caller holds f.mu.
func (f *Feed) refreshVariants(ctx context.Context, s *client.Session, k revision.Kind, now time.Time) time.Duration {
	slot := &f.slots[k]
	if slot.variantsDue.IsZero() {
		return 0
	}
	if wait := slot.variantsDue.Sub(now); wait > 0 {
		return wait
	}
	slot.variantsDue, slot.variantsStarted = time.Time{}, now
	for _, a := range f.variants {
		switch {
		case !a.record.Differed(f.revision, k), !a.record.UsedSince(now.Add(-variantIdle)):
		case now.Before(a.notBefore):
			if slot.variantsDue.IsZero() || a.notBefore.Before(slot.variantsDue) {
				slot.variantsDue = a.notBefore
			}
		case len(slot.fetches) < maxFetches && slot.current(a.record, f.isCurrent(k)) == nil:
			f.fetch(ctx, s, k, a.record)
		}
	}
	if slot.variantsDue.IsZero() {
		return 0
	}
	return slot.variantsDue.Sub(now)
}

// dropIdle makes room for another variant, if there is one that the feed has not
// asked for lately. The caller holds f.mu.
func (f *Feed) dropIdle(now time.Time) bool {
	var found *askedVariant
	for _, a := range f.variants {
		if a.fetches == 0 && now.Sub(a.used) >= a.idle() && (found == nil || a.used.Before(found.used)) {
			found = a
		}
	}
	if found == nil {
		return false
	}
	delete(f.variants, found.record.Key)
	f.endVariant(found)
	return true
}

// sessionAs returns the session in which the feed asks as a client of variant v: its own
// if v is nil, or if the upstream has no sessions.
func (f *Feed) sessionAs(ctx context.Context, own *client.Session, v *variant.Record) (*client.Session, error) {
	if v == nil || !own.HasID() {
		return own, nil
	}
	f.mu.Lock()
	a := f.variants[v.Key]
	if a == nil { // it was dropped meanwhile
		f.mu.Unlock()
		return nil, errDisconnected
	}
	a.fetches++
	first := a.opened == nil
	if first {
		a.opened = make(chan struct{})
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		a.fetches--
		f.mu.Unlock()
	}()
	if first {
		f.openFor(ctx, own, a)
	}
	select {
	case <-a.opened:
		return a.session, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// openFor opens the session of a variant, and listens in it: what such a client is shown
// may change after it was opened. A panic is a failure of that alone.
func (f *Feed) openFor(ctx context.Context, own *client.Session, a *askedVariant) {
	defer close(a.opened)
	defer func() {
		if p := recover(); p != nil {
			a.session, a.err = nil, fmt.Errorf("opening a session as another client panicked: %v", p)
		}
	}()
	ctx, a.end = context.WithCancel(ctx)
	if a.session, a.err = f.openAs(ctx, a.record); a.err != nil || !own.Listens() || !a.session.Listens() {
		return
	}
	opened := make(chan struct{})
	done := sync.OnceFunc(func() { close(opened) })
	f.background.Go(func() {
		defer func() { _ = recover() }() // fetches go on, notices come on the feed's own stream
		defer done()
		wasOpen := false
		_ = a.session.Listen(ctx, func() {
			wasOpen = true
			done()
		}, func() {})
		if wasOpen {
			f.renewSession(ctx, a)
		}
	})
	sleep(ctx, acknowledgeTimeout, opened)
}

// forgetSession ends the session of a variant after a fetch in it has failed. The next
// fetch opens another, after variantRetry.
func (f *Feed) forgetSession(v *variant.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.variants[v.Key]; a != nil && a.fetches == 0 {
		now := time.Now()
		f.variants[v.Key] = &askedVariant{record: v, used: now, notBefore: now.Add(variantRetry)}
		f.endVariant(a)
	}
}

// renewSession has the lists of a variant fetched in a new session, since the stream of
// its session has ended: changes since then were not announced in it.
func (f *Feed) renewSession(ctx context.Context, a *askedVariant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || f.variants[a.record.Key] != a {
		return
	}
	now := time.Now()
	next := now.Add(max(f.policy().Refresh, time.Second))
	f.variants[a.record.Key] = &askedVariant{record: a.record, used: a.used, notBefore: next}
	f.endVariant(a)
	for k := range f.slots {
		if slot := &f.slots[k]; slot.offered {
			slot.variantsDue = later(slot.variantsDue, next)
		}
	}
	signal(f.wake)
}

// endVariant ends the session of a variant, if it has one, in the background. The
// caller holds f.mu and has taken the variant out of f.variants.
func (f *Feed) endVariant(a *askedVariant) {
	if a.opened == nil {
		return
	}
	f.background.Go(func() {
		defer func() { _ = recover() }() // the upstream ends the session by itself
		<-a.opened
		if a.end == nil {
			return
		}
		a.end()
		if a.session != nil {
			f.group.closeSession(a.session)
		}
	})
}

// endVariants ends the sessions of all variants.
func (f *Feed) endVariants() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.variants {
		f.endVariant(a)
	}
	clear(f.variants)
}
