package keeper

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
)

// Run saves until ctx ends; what is still to be saved then is saved last.
func (w *Keeper) Run(ctx context.Context) {
	upkeep, again := time.NewTimer(untilUpkeep()), time.NewTimer(resave)
	defer upkeep.Stop()
	defer again.Stop()
	again.Stop()
	var announced <-chan time.Time // nil while nothing is to be saved for that
	for {
		done := true
		select {
		case <-w.announced:
			if announced == nil {
				announced = time.After(announceDelay)
			}
		case <-announced:
			announced = nil
			done = w.save(ctx, saveTimeout)
		case <-w.wake:
			done = w.save(ctx, saveTimeout)
		case <-again.C:
			done = w.save(ctx, saveTimeout)
		case <-upkeep.C:
			w.keep(ctx)
			done = w.save(ctx, saveTimeout)
			upkeep.Reset(untilUpkeep())
		case <-ctx.Done():
			w.save(context.WithoutCancel(ctx), FarewellTimeout)
			return
		}
		if !done {
			again.Reset(resave)
		}
	}
}

// save saves everything that is dirty, and deletes what must not be there any
// more. What fails is tried again in the next round. It reports whether nothing
// did. The last quarter of the time is for deleting what could not be replaced.
func (w *Keeper) save(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	saving, cancelSaving := context.WithTimeout(ctx, limit*3/4)
	defer cancelSaving()
	store, due := w.take()
	var failure error
	for key, c := range due {
		now, err := w.saveOne(saving, store, key, c)
		if err != nil {
			failure = cmp.Or(failure, err)
			now = w.withdraw(ctx, store, key, c)
		}
		w.note(store, key, now)
	}
	if len(due) > 0 {
		w.report(ctx, failure)
	}
	return failure == nil
}

// withdraw deletes the copy of a list that is another by now, or of which a change
// was announced that it does not tell of, and that could not be saved: those who were told of the change must not get the old list after a
// restart.
func (w *Keeper) withdraw(ctx context.Context, store *boundedStore, key slotKey, c storedCopy) storedCopy {
	c.dirty = true
	if c.there == notThere {
		return c
	}
	if e := w.cache.Pinned(key.revision, key.kind); e != nil && c.there == isThere && e.Body.Digest == c.digest &&
		(c.announced || !w.isOutdated(e)) {
		return c // it is only not known to be that young
	}
	if place, err := w.place(); err == nil && store.Delete(ctx, key.in(place)) == nil {
		c.there = notThere
	}
	return c
}

// report logs that saving fails, once until it works again.
func (w *Keeper) report(ctx context.Context, failure error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if failure != nil && errors.Is(ctx.Err(), context.Canceled) {
		return // it is tried once more
	}
	if failure != nil && !w.failed {
		w.logger.Warn("saving snapshots failed", zap.Error(failure))
	}
	w.failed = failure != nil
}

// take returns the copies that have to be brought up to date. Among them are
// those of lists that are not there any more: the upstream or the operator has
// given up the kind; and those that do not tell rightly whether a change was
// announced.
func (w *Keeper) take() (*boundedStore, map[slotKey]storedCopy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsignal() // whatever it was for is among them
	due := make(map[slotKey]storedCopy)
	for _, key := range slotKeys() {
		c, e := w.of(key), w.cache.Pinned(key.revision, key.kind)
		if c.dirty || c.there == isThere && (e == nil || c.announced != w.isOutdated(e)) {
			due[key] = *c
			c.dirty = false
		}
	}
	return w.store, due
}

// saveOne brings one copy up to date: a list that is private by now has none.
func (w *Keeper) saveOne(ctx context.Context, store *boundedStore, key slotKey, c storedCopy) (storedCopy, error) {
	place, err := w.place()
	if err != nil {
		return c, err
	}
	e := w.cache.Pinned(key.revision, key.kind)
	if e == nil || !snapshot.Shareable(e) {
		if c.there == notThere {
			return storedCopy{there: notThere}, nil
		}
		return storedCopy{there: notThere}, store.Delete(ctx, key.in(place))
	}
	announced := w.isOutdated(e)
	data, err := snapshot.Encode(e, announced, w.AdmittedUntil(key.revision))
	if err != nil {
		return c, err
	}
	saved := storedCopy{there: isThere, saved: time.Now(), digest: e.Body.Digest, announced: announced}
	return saved, store.Save(ctx, key.in(place), data)
}
