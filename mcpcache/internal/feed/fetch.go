package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// errEmpty says that a list has become empty without a word. An upstream that
// loses its tools for a blip must not empty everybody's list, so the answer
// counts only when it is given twice.
var errEmpty = errors.New("list is empty all of a sudden, asking once more")

// Demand returns the fetch that brings a kind as it is now for clients of a
// variant, starting one if need be; callers who miss together share it. nil is
// the variant of the feed itself. It returns nil when the feed cannot help: it is
// not connected, the upstream does not have the kind, the last attempt failed and
// the next is not due, or there are too many variants.
func (f *Feed) Demand(k revision.Kind, v *variant.Record) *Flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.slots[k]
	if f.session == nil || !s.offered {
		return nil
	}
	if flight := s.current(v, f.isCurrent(k)); flight != nil {
		return flight
	}
	// It may have landed since the caller looked.
	if e := f.fresh(k, v); e != nil {
		return landedFlight(e, v)
	}
	if s.failure != nil && s.due.After(time.Now()) || len(s.flights) >= maxFlights || !f.mayAskAs(v) {
		return nil
	}
	return f.takeOff(f.ctx, f.session, k, v)
}

// isCurrent returns whether a flight that has left brings what is newest: there was
// no change since, and no client of its variant was given a list since.
func (f *Feed) isCurrent(k revision.Kind) func(*Flight) bool {
	return func(flight *Flight) bool {
		if !f.cache.Current(k, flight.mark) || flight.variant == nil {
			return f.cache.Current(k, flight.mark)
		}
		given := flight.variant.Seen(f.revision, k)
		return given == nil || !given.ByClient || !given.At.After(flight.departed)
	}
}

// fresh returns what is fresh of a kind for clients of a variant, or nil.
func (f *Feed) fresh(k revision.Kind, v *variant.Record) *cache.Entry {
	now := time.Now()
	own := f.cache.Pinned(f.revision, k)
	if own != nil && (v == nil || v.Seen(f.revision, k).Agrees(own)) && f.cache.Freshness(own, now) == cache.Fresh {
		return own
	}
	for _, partition := range [...]cache.Partition{f.Owner(), cache.Public} {
		e := f.cache.Get(cache.Question{Revision: f.revision, Kind: k, Partition: partition, Variant: keyOf(v)})
		if e != nil && f.cache.Freshness(e, now) == cache.Fresh && (v == nil || v.Shown(e, own)) {
			return e
		}
	}
	return nil
}

// takeOff starts a fetch. The caller holds f.mu.
func (f *Feed) takeOff(ctx context.Context, s *client.Session, k revision.Kind, v *variant.Record) *Flight {
	flight := &Flight{variant: v, began: time.Now(), done: make(chan struct{})}
	slot := &f.slots[k]
	slot.flights = append(slot.flights, flight)
	gathered := slot.told.Add(gather)
	f.flying.Go(func() {
		defer close(flight.done)
		asking := s
		if flight.err = sleepUntil(ctx, gathered); flight.err == nil {
			asking, flight.err = f.sessionAs(ctx, s, v)
		}
		if flight.err == nil {
			f.depart(k, flight)
			flight.entry, flight.err = f.fetch(ctx, asking, k, flight)
		}
		if v == nil {
			f.landed(ctx, s, k, flight)
		} else {
			f.compared(k, flight)
		}
	})
	return flight
}

// gather is how long after a notice a flight waits before it leaves. An upstream
// tells all feeds of a change at once, but they do not hear it at once; what the
// first of them sets off need not be done again for the others.
const gather = time.Millisecond

func sleepUntil(ctx context.Context, t time.Time) error {
	wait := time.Until(t)
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// depart has a flight count as one from after all that has been announced: it
// sends nothing before.
func (f *Feed) depart(k revision.Kind, flight *Flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	flight.mark, flight.left, flight.departed = f.cache.Mark(k), true, time.Now()
	if flight.variant == nil {
		slot := &f.slots[k]
		slot.started, slot.due = time.Now(), time.Time{} // the landing says when the next one is due
	}
}

// fetch brings one kind. A panic is a failure of this fetch only.
func (f *Feed) fetch(ctx context.Context, s *client.Session, k revision.Kind, flight *Flight) (e *cache.Entry, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, fmt.Errorf("fetching %s panicked: %v", k, p)
		}
	}()
	request := client.ListRequest{Kind: k, As: identityOf(flight.variant), Patient: flight.variant == nil}
	if own := f.cache.Pinned(f.revision, k); own != nil {
		request.Before = own.Size()
	}
	policy := f.policy()
	list, err := s.List(ctx, request)
	if err != nil {
		return nil, client.Brief(err)
	}
	return f.snapshot(k, flight, list, policy), nil
}

// snapshot makes an entry of a list. It is as old as its first page, and fresh for
// as long as the page with the shortest life.
func (f *Feed) snapshot(k revision.Kind, flight *Flight, list *client.List, policy *Policy) *cache.Entry {
	lifetime := policy.Of(k).MaxTTL
	for _, page := range list.Pages {
		lifetime = min(lifetime, policy.Lifetime(k, page.TTL, page.HasTTL))
	}
	return &cache.Entry{
		Kind: k, Revision: f.revision, Variant: keyOf(flight.variant),
		Body: list.Body, Fetched: list.First, Mark: flight.mark,
		Lifetime: lifetime, Partition: policy.Partition(list.Body.Scope),
	}
}

// compared takes what a flight as a client of another variant brought. If it is
// what the feed itself was given, the feed's snapshot serves both from now on;
// otherwise it is that variant's. What clients of the variant were given
// themselves has the last word: a list that is not theirs is nobody's.
func (f *Feed) compared(k revision.Kind, flight *Flight) {
	defer func() { // whoever does not join this flight any more finds what it brought
		f.mu.Lock()
		f.slots[k].land(flight)
		f.mu.Unlock()
	}()
	v := flight.variant
	if flight.err != nil {
		f.forgetSession(v)
		return
	}
	e := flight.entry
	if k != revision.Discover && !v.Believes(f.revision, k, e.Body.Items, flight.mark) {
		flight.entry, flight.err = nil, errEmpty
		return
	}
	seen := &cache.Seen{Items: e.Body.ItemsDigest, Mark: flight.mark, At: e.Fetched}
	own := f.cache.Pinned(f.revision, k)
	if !v.Confirm(seen, e, own) {
		flight.entry, flight.err = nil, errConflict
		if given := v.Seen(f.revision, k); given == nil || !given.At.After(flight.departed) {
			v.Conflict(f.revision, k, flight.mark) // otherwise the list may have changed meanwhile
		}
		return
	}
	switch {
	case own == nil || !seen.Agrees(own):
		f.cache.Put(e)
	case own.Body.Digest == e.Body.Digest && own.Mark.Since(flight.mark):
		flight.entry = own // callers who read slowly need not keep another copy
	}
}

// errConflict says that a client of a variant was given another list than the
// feed that asked as one.
var errConflict = errors.New("clients of one variant are given different lists")

// landed publishes what a flight brought, and says when the next one is due.
func (f *Feed) landed(ctx context.Context, s *client.Session, k revision.Kind, flight *Flight) {
	// Whatever comes of it, there is room for the next flight.
	defer signal(f.wake)
	before := f.cache.Pinned(f.revision, k)
	f.mu.Lock()
	slot := &f.slots[k]
	slot.land(flight)
	defer slot.announceLanding(f)
	if ctx.Err() != nil || f.session != s || !slot.offered {
		f.mu.Unlock()
		// The session is over, or nobody wants the kind any more: that is
		// nobody's failure.
		return
	}
	f.settle(slot, k, flight, before)
	slot.attempted = true
	took := time.Since(slot.started)
	f.mu.Unlock()
	f.report(k, before, flight, took)
	f.noteProgress()
}

// settle draws the consequences of a landing. The caller holds f.mu.
func (f *Feed) settle(slot *slot, k revision.Kind, flight *Flight, before *cache.Entry) {
	if flight.err == nil && f.suspicious(slot, before, flight.entry) {
		flight.entry, flight.err = nil, errEmpty
	}
	switch {
	case flight.err == nil:
		flight.overtaken = !f.cache.Pin(flight.entry)
		if flight.overtaken {
			return // the landing of what is newer has said it all
		}
		f.compareSilence(slot, k, before, flight.entry)
		f.trust(slot.started)
		slot.failure, slot.empty = nil, 0
		slot.retry.Reset()
		f.schedule(slot, k, flight.entry)
	case before == nil && client.NotOffered(flight.err):
		// The server advertises the capability but not this method.
		slot.failure = nil
		slot.due = time.Now().Add(early(f.policy().Of(k).TTL))
	default:
		now := time.Now()
		f.doubtIfGone(flight.err)
		slot.failure = &Failure{Stage: k.String(), Err: flight.err, At: now}
		slot.notBefore = now.Add(client.RetryAfter(flight.err))
		slot.due = later(now.Add(slot.retry.NextBackOff()), slot.notBefore)
	}
}

// schedule says when a kind that has just been fetched is due again. The
// caller holds f.mu.
func (f *Feed) schedule(slot *slot, k revision.Kind, e *cache.Entry) {
	p := f.policy()
	life := e.Lifetime
	if life == 0 {
		// Never fresh: the copy only has to be recent enough for bad times.
		life = p.Of(k).TTL
	}
	due := later(e.Fetched.Add(early(life)), slot.started.Add(p.Refresh))
	// Something may have asked for another fetch while this one was under way.
	slot.hasten(due)
	if !f.cache.Current(k, e.Mark) && !slot.refreshing() {
		slot.due = slot.started.Add(p.Refresh)
	}
}

// suspicious reports whether an empty answer still has to be confirmed.
func (f *Feed) suspicious(slot *slot, before, now *cache.Entry) bool {
	if now.Kind == revision.Discover || now.Body.Items > 0 || before == nil || before.Body.Items == 0 ||
		!f.cache.Current(now.Kind, before.Mark) {
		return false
	}
	slot.empty++
	return slot.empty < 2
}

// report tells what a landing has brought: in the log only if it is new.
func (f *Feed) report(k revision.Kind, before *cache.Entry, flight *Flight, took time.Duration) {
	observer := f.policy().Observer
	if flight.err != nil {
		if observer != nil {
			observer.Refreshed(f.revision, k, took, false, flight.err)
		}
		return
	}
	published := flight.entry
	if flight.overtaken {
		published = before
	}
	flight.change = compare(before, published)
	if observer != nil {
		observer.Refreshed(f.revision, k, took, flight.change.Same, nil)
	}
	if flight.change.Same {
		return
	}
	f.logger().Info("list refreshed",
		zap.Stringer("kind", k), zap.Stringer("revision", f.revision),
		zap.Int("items", flight.change.Items), zap.Int("added", len(flight.change.Added)),
		zap.Int("removed", len(flight.change.Removed)), zap.Int("changed", len(flight.change.Changed)),
		zap.Int("more", flight.change.More))
	if observer != nil {
		observer.Changed(flight.change)
	}
}
