package mcpcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

const (
	// loadTimeout is how long the feeds wait for what a store has, all in
	// all. What comes later is not used.
	loadTimeout = 3 * time.Second
	// saveTimeout is how long one round of saving may take.
	saveTimeout = 10 * time.Second
	// resave is how often a snapshot is saved that has not changed: a restart
	// has to know how old it is, give or take this.
	resave = time.Minute
)

// warmer keeps the feeds' snapshots in a store and brings them back after a
// restart. Saving never delays a feed: one goroutine saves what is newest.
type warmer struct {
	cache *cache.Cache
	key   string // of the upstream, the first part of every key

	wake chan struct{}

	mu     sync.Mutex
	store  *boundedStore
	logger *zap.Logger
	copies [revision.Count][revision.NumKinds]storedCopy
	failed bool // the last round of saving has
}

// storedCopy is what is known of a snapshot's copy in the store.
type storedCopy struct {
	there presence
	saved time.Time
	dirty bool // it is to be saved, or deleted
}

// presence says whether the store has a copy.
type presence uint8

const (
	maybeThere presence = iota
	isThere
	notThere
)

type slotKey struct {
	revision revision.Revision
	kind     revision.Kind
}

func newWarmer(key string, c *cache.Cache) *warmer {
	return &warmer{cache: c, key: key, wake: make(chan struct{}, 1)}
}

// use makes s the store from now on. A store that was not used before is given
// everything there is.
func (w *warmer) use(s stores.Store, logger *zap.Logger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logger = logger
	if w.store != nil && w.store.Store == s {
		return
	}
	w.store, w.failed = newBoundedStore(s), false
	for _, key := range slotKeys() {
		*w.of(key) = storedCopy{dirty: w.cache.Pinned(key.revision, key.kind) != nil}
	}
	w.signal()
}

// signal asks for a round of saving. The caller holds w.mu.
func (w *warmer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// unsignal takes back what signal asked for. The caller holds w.mu.
func (w *warmer) unsignal() {
	select {
	case <-w.wake:
	default:
	}
}

// of returns the copy of a snapshot. The caller holds w.mu.
func (w *warmer) of(key slotKey) *storedCopy { return &w.copies[key.revision][key.kind] }

func (w *warmer) current() (*boundedStore, *zap.Logger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.store, w.logger
}

func (w *warmer) path(k slotKey) string {
	return fmt.Sprintf("%s/%s.%s.snapshot", w.key, k.revision, k.kind)
}

// slotKeys returns every snapshot that a feed may keep.
func slotKeys() []slotKey {
	var keys []slotKey
	for _, r := range revision.All() {
		for _, k := range revision.Kinds() {
			if k.In(r) {
				keys = append(keys, slotKey{r, k})
			}
		}
	}
	return keys
}

// load brings back every snapshot that the feeds have not fetched yet. What
// cannot be used is left alone; a store that fails delays the feeds by no more
// than its time limit.
func (w *warmer) load(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	store, logger := w.current()
	var failure error
	for _, key := range slotKeys() {
		data, err := store.Load(ctx, w.path(key))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			w.note(store, key, storedCopy{there: notThere})
		case err != nil:
			failure = cmp.Or(failure, err)
		default:
			w.restore(store, key, data, logger)
		}
	}
	if failure != nil {
		logger.Warn("loading stored snapshots failed", zap.Error(failure))
	}
}

// restore makes a snapshot of what was stored.
func (w *warmer) restore(store *boundedStore, key slotKey, data []byte, logger *zap.Logger) {
	e, err := snapshot.Decode(data, key.revision, key.kind, time.Now())
	if err != nil {
		logger.Warn("stored snapshot ignored", zap.String("key", w.path(key)), zap.Error(err))
		return
	}
	w.cache.Restore(e)
	w.note(store, key, storedCopy{there: isThere})
}

// note records what has become of a copy, unless another store is in use by
// now. What became dirty meanwhile stays so.
func (w *warmer) note(store *boundedStore, key slotKey, now storedCopy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.store != store {
		return
	}
	c := w.of(key)
	now.dirty = now.dirty || c.dirty
	*c = now
}

// refreshed is told of each fetch that succeeded.
func (w *warmer) refreshed(r revision.Revision, k revision.Kind, same bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.of(slotKey{r, k})
	if !same || time.Since(c.saved) >= resave {
		c.dirty = true
		w.signal()
	}
}

// run saves until ctx ends; what is still to be saved then is saved last.
func (w *warmer) run(ctx context.Context) {
	for {
		select {
		case <-w.wake:
			w.save(ctx, saveTimeout)
		case <-ctx.Done():
			w.save(context.WithoutCancel(ctx), farewellTimeout)
			return
		}
	}
}

// save saves everything that is dirty, and deletes what must not be there any
// more. What fails is tried again in the next round.
func (w *warmer) save(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	store, due := w.take()
	var failure error
	for key, c := range due {
		now, err := w.saveOne(ctx, store, key, c)
		if err != nil {
			failure = cmp.Or(failure, err)
			now = storedCopy{dirty: true}
		}
		w.note(store, key, now)
	}
	if len(due) > 0 {
		w.report(ctx, failure)
	}
}

// report logs that saving fails, once until it works again.
func (w *warmer) report(ctx context.Context, failure error) {
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
// given up the kind.
func (w *warmer) take() (*boundedStore, map[slotKey]storedCopy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsignal() // whatever it was for is among them
	due := make(map[slotKey]storedCopy)
	for _, key := range slotKeys() {
		c := w.of(key)
		if c.dirty || c.there == isThere && w.cache.Pinned(key.revision, key.kind) == nil {
			due[key] = *c
			c.dirty = false
		}
	}
	return w.store, due
}

// saveOne brings one copy up to date: a list that is private by now has none.
func (w *warmer) saveOne(ctx context.Context, store *boundedStore, key slotKey, c storedCopy) (storedCopy, error) {
	e := w.cache.Pinned(key.revision, key.kind)
	if e == nil || !snapshot.Shareable(e) {
		if c.there == notThere {
			return storedCopy{there: notThere}, nil
		}
		return storedCopy{there: notThere}, store.Delete(ctx, w.path(key))
	}
	data, err := snapshot.Encode(e)
	if err != nil {
		return c, err
	}
	return storedCopy{there: isThere, saved: time.Now()}, store.Save(ctx, w.path(key), data)
}
