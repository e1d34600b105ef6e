package persist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

const (
	// leaseLife is how long a lease lasts after its holder has died. extendEach is how often a living
	// holder extends it.
	leaseLife  = 3 * time.Second
	extendEach = time.Second
	// leaseTimeout is how long an instance waits for the store, before it fetches by itself.
	leaseTimeout = 2 * time.Second
)

// Lease decides which instance fetches the list that comes after own, when own is due again. One of the
// instances that share a store fetches it, and the others load it from the store. There are three
// results:
//
//   - The list, if the store has it. It was asked for after own. Its Lifetime is what the other instance
//     has found, and its Mark is the mark of own.
//   - Nothing, if another instance fetches the list. The caller has to call Lease again.
//   - end, if the caller has to fetch the list. The caller calls end once the list is pinned, or if it
//     could not get the list. The others learn that instance fetches it.
func (kp *Keeper) Lease(ctx context.Context, instance string, own *cache.Entry) (e *cache.Entry, end func()) {
	store, _ := kp.current()
	fleet, can := store.shared.(stores.Fleet)
	if !can || !snapshot.Shareable(own) {
		return nil, func() {}
	}
	asking, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	key := slotKey{own.Revision, own.Kind}
	e, lease, err := kp.lease(asking, instance, store, fleet, own)
	held := errors.Is(err, stores.ErrHeld)
	kp.reportLease(asking, err)
	kp.noteHolder(key, instance, lease, err)
	switch {
	case e != nil || held:
		return e, nil
	case lease == nil:
		return nil, func() {}
	}
	return nil, kp.hold(ctx, store, key, lease)
}

// lease returns the list that another instance has fetched since own, or the lease.
func (kp *Keeper) lease(ctx context.Context, instance string, store *boundedStore, fleet stores.Fleet, own *cache.Entry) (*cache.Entry, stores.Lease, error) {
	place, err := kp.place()
	if err != nil {
		return nil, nil, err
	}
	key := slotKey{own.Revision, own.Kind}
	path := key.in(place)
	terms, err := store.terms(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	known := own.Asked.Add(terms.Ahead + terms.Within) // or earlier
	if c := kp.copyOf(key); c.asked.Equal(own.Asked) {
		known = c.asOf // it is what is there
	}
	for range 2 {
		lease, err := callFor(ctx, store, func() (stores.Lease, error) { return fleet.Lease(ctx, path, instance, known, leaseLife) })
		if !errors.Is(err, stores.ErrNewer) {
			return nil, lease, err
		}
		e, err := kp.newer(ctx, store, own, path, terms)
		if e != nil || err != nil {
			return e, nil, err
		}
		known = time.Now().Add(terms.Ahead + terms.Within) // what is there is of no use
	}
	return nil, nil, errors.New("what is stored is from the future")
}

// newer returns the stored list, or nil if it is of no use in the place of own.
func (kp *Keeper) newer(ctx context.Context, store *boundedStore, own *cache.Entry, path string, terms snapshot.Terms) (*cache.Entry, error) {
	key := slotKey{own.Revision, own.Kind}
	data, err := store.Load(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what another instance has fetched: %w", err)
	}
	kp.mu.Lock()
	kp.unread = nil
	kp.mu.Unlock()
	e, state, err := decode(data, int64(len(data)), key, kp.largest(), terms)
	if kp.ignore(key, path, err) {
		return nil, nil
	}
	if now := time.Now(); e.Mark.BeforeStart() || e.Lifetime > 0 && e.Left(now) <= 0 || !e.Asked.After(own.Asked) || e.Asked.After(now) {
		return nil, nil
	}
	kp.note(store, key, storedCopy{there: isThere, saved: time.Now(), digest: e.Body.Digest, asked: e.Asked, asOf: state.AsOf})
	return e, nil
}

// hold extends a lease until the returned function is called. That saves what has become of the
// list, unless ctx has ended, as the keeper saves at its end; then the lease ends.
func (kp *Keeper) hold(ctx context.Context, store *boundedStore, key slotKey, lease stores.Lease) (end func()) {
	ask := func(do func(context.Context) error) error {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTimeout)
		defer cancel()
		return store.call(asking, func() error { return do(asking) })
	}
	ended := make(chan struct{})
	go func() {
		each := time.NewTicker(extendEach)
		defer each.Stop()
		for {
			select {
			case <-each.C:
				if err := ask(func(ctx context.Context) error { return lease.Extend(ctx, leaseLife) }); errors.Is(err, stores.ErrHeld) {
					kp.forgetHolder(key)
					return // what we are given is not saved over what another is
				}
			case <-ended:
				_ = ask(lease.Release) // or it ends by itself
				return
			}
		}
	}()
	return func() {
		defer close(ended)
		defer kp.forgetHolder(key)
		kp.save(ctx, leaseTimeout)
	}
}

// copyOf returns what is known of a snapshot's copy.
func (kp *Keeper) copyOf(key slotKey) storedCopy {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	return *kp.of(key)
}

// reportLease logs that leases cannot be taken, once until they can.
func (kp *Keeper) reportLease(ctx context.Context, failure error) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	if errors.Is(failure, stores.ErrHeld) || errors.Is(failure, stores.ErrAway) {
		failure = nil
	}
	if failure != nil && kp.unleased == nil && !errors.Is(ctx.Err(), context.Canceled) {
		kp.logger.Warn("agreeing with other instances on who fetches failed: this one fetches for itself", zap.Error(failure))
	}
	kp.unleased = failure
}
