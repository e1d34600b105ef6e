package persist

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Run saves until ctx ends, and then what is left. It also loads what Load could not.
func (kp *Keeper) Run(ctx context.Context) {
	upkeep, again := time.NewTimer(untilUpkeep()), time.NewTimer(resave)
	defer upkeep.Stop()
	defer again.Stop()
	again.Stop()
	var announced <-chan time.Time // nil unless a notice is to be saved
	load := kp.soon()
	for {
		select {
		case <-kp.announced:
			if announced == nil {
				announced = time.After(announceDelay)
			}
		case <-announced:
			announced = nil
			kp.save(ctx, saveTimeout)
		case <-load:
			kp.Load(ctx)
			load = kp.soon()
		case <-kp.wake:
			kp.save(ctx, saveTimeout)
		case <-again.C:
			kp.save(ctx, saveTimeout)
		case <-kp.unsaved:
			again.Reset(resave)
		case <-upkeep.C:
			kp.keep(ctx)
			kp.save(ctx, saveTimeout)
			upkeep.Reset(untilUpkeep())
		case <-ctx.Done():
			kp.save(context.WithoutCancel(ctx), ShutdownTimeout)
			return
		}
	}
}

// save saves everything that is dirty, and deletes what must not be stored any more.
// What fails is tried again in the next round, in a minute at the latest. The last quarter
// of the time is for deleting what could not be replaced.
func (kp *Keeper) save(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case kp.saving <- struct{}{}:
		defer func() { <-kp.saving }()
	case <-ctx.Done():
		flight.Signal(kp.unsaved)
		return
	}
	saving, cancelSaving := context.WithTimeout(ctx, limit*3/4)
	defer cancelSaving()
	store, due := kp.take()
	var failure error
	for key, c := range due {
		now, err := kp.saveOne(saving, store, key, c)
		if err != nil {
			failure = cmp.Or(failure, err)
			now = kp.withdraw(ctx, store, key, c)
		}
		kp.note(store, key, now)
	}
	if len(due) > 0 {
		kp.report(ctx, failure)
	}
	if failure != nil {
		flight.Signal(kp.unsaved)
	}
}

// withdraw deletes a copy that could not be replaced, if the list is another by now
// or the copy is not marked as outdated though it is: after a restart, callers who
// have seen the notice must not get the old list.
func (kp *Keeper) withdraw(ctx context.Context, store *boundedStore, key slotKey, c storedCopy) storedCopy {
	c.dirty = true
	if c.there == notThere {
		return c
	}
	if e := kp.cache.Pinned(key.revision, key.kind); e != nil && c.there == isThere && e.Body.Digest == c.digest &&
		(c.announced || !kp.isOutdated(e)) {
		return c // only its time is wrong
	}
	if place, err := kp.place(); err == nil && store.Delete(ctx, key.in(place)) == nil {
		c.there = notThere
	}
	return c
}

// report logs that saving fails, once until it works again.
func (kp *Keeper) report(ctx context.Context, failure error) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	if failure != nil && errors.Is(ctx.Err(), context.Canceled) {
		return // the keeper ends, and saves once more
	}
	if failure != nil && kp.failed == nil && !errors.Is(failure, stores.ErrAway) {
		kp.logger.Warn("saving snapshots failed", zap.Error(failure))
	}
	kp.failed = failure
}

// take returns the copies that have to be brought up to date. Besides the dirty ones,
// those are copies of kinds that the upstream or the operator has given up, and copies
// whose mark as outdated is wrong.
func (kp *Keeper) take() (*boundedStore, map[slotKey]storedCopy) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	kp.unsignal() // its reason is among the copies
	due := make(map[slotKey]storedCopy)
	for _, key := range slotKeys() {
		c, e := kp.of(key), kp.cache.Pinned(key.revision, key.kind)
		if c.dirty || c.there == isThere && (e == nil || c.announced != kp.isOutdated(e)) {
			due[key] = *c
			c.dirty = false
		}
	}
	return kp.store, due
}

// saveOne brings one copy up to date, or deletes it if the list is private by now.
func (kp *Keeper) saveOne(ctx context.Context, store *boundedStore, key slotKey, c storedCopy) (storedCopy, error) {
	place, err := kp.place()
	if err != nil {
		return c, err
	}
	e := kp.cache.Pinned(key.revision, key.kind)
	if e == nil || !snapshot.Shareable(e) {
		if c.there == notThere {
			return storedCopy{there: notThere}, nil
		}
		return storedCopy{there: notThere}, store.Delete(ctx, key.in(place))
	}
	terms, err := store.terms(ctx, key.in(place))
	if err != nil {
		return c, err
	}
	announced := kp.isOutdated(e)
	state := snapshot.State{AsOf: c.asOf}
	if !e.Asked.Equal(c.asked) {
		state.AsOf = terms.AsOf(e.Asked)
	}
	if store.shared == nil { // whoever can write to it must not open the door
		state.Admitted = kp.AdmittedUntil(key.revision)
	}
	if kp.clients != nil {
		state.Clients = kp.clients.Given(e)
	}
	data, err := snapshot.Encode(e, announced, state, terms)
	if err != nil {
		return c, err
	}
	saved := storedCopy{there: isThere, saved: time.Now(), digest: e.Body.Digest, announced: announced, asked: e.Asked, asOf: state.AsOf}
	return saved, store.keep(ctx, key.in(place), state.AsOf, data)
}
