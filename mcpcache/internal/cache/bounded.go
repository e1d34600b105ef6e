package cache

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
)

const (
	// averageEntry is what a typical entry costs, in bytes. It only sizes the
	// frequency counters of the admission policy.
	averageEntry = 8 << 10
	minCounters  = 1 << 10
	maxCounters  = 1 << 20

	// largestShare is the part of the memory that one entry may take.
	largestShare = 8

	// retention is how long an entry is kept after its last write: beyond
	// the longest time for which a stale copy can be of use.
	retention = 48 * time.Hour

	stripes = 64

	// attempts is how often tryPut tries to make room for an entry.
	attempts = 4
)

// bounded is a store of bounded size around Ristretto, which by itself delays, drops or
// reorders writes, keeps an update of any size and must not be closed while in use.
// Here a write can be read when put returns true, an older answer never replaces a newer
// one, and nothing happens after close.
type bounded struct {
	// closing is held for reading during every use of store.
	closing  sync.RWMutex
	closed   bool
	store    *ristretto.Cache[[]byte, *kept]
	contents *contents
	memory   int64

	seed  maphash.Seed
	locks [stripes]sync.Mutex
}

func newBounded(memory int64, compressed *encoded.Set) (*bounded, error) {
	b := &bounded{seed: maphash.MakeSeed(), memory: memory, contents: newContents(memory, compressed)}
	store, err := ristretto.NewCache(&ristretto.Config[[]byte, *kept]{
		NumCounters:        min(max(10*memory/averageEntry, minCounters), maxCounters),
		MaxCost:            memory,
		BufferItems:        64,
		IgnoreInternalCost: true,
		ShouldUpdate:       func(k, present *kept) bool { return !present.entry.newerThan(k.entry) },
		OnExit: func(k *kept) {
			if k != nil {
				b.contents.drop(k)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("starting ristretto: %w", err)
	}
	b.store, b.contents.resize = store, store.UpdateMaxCost
	return b, nil
}

// get returns the answer to q, or nil. The entry is compared with q, because the store
// compares keys by hashes only.
func (b *bounded) get(q Question) *Entry {
	b.closing.RLock()
	defer b.closing.RUnlock()
	if b.closed {
		return nil
	}
	var buf [128]byte
	k, ok := b.store.Get(appendKey(buf[:0], q))
	if !ok || !k.entry.answers(q) {
		return nil
	}
	return k.entry
}

// put keeps e and reports whether it can be found.
func (b *bounded) put(e *Entry) bool {
	found, stuck := b.tryPut(e)
	if stuck {
		b.purge()
	}
	return found
}

// forget removes the answer to a question, if there is one.
func (b *bounded) forget(q Question) {
	b.closing.RLock()
	defer b.closing.RUnlock()
	if b.closed {
		return
	}
	key := appendKey(make([]byte, 0, 64+len(q.Detail)), q)
	lock := &b.locks[maphash.Bytes(b.seed, key)%stripes]
	lock.Lock()
	defer lock.Unlock()
	b.delete(key)
}

// tryPut is put. stuck says that the store is full of bytes that no eviction frees:
// entries that cost little share them, and those that were charged for them are gone.
func (b *bounded) tryPut(e *Entry) (found, stuck bool) {
	b.closing.RLock()
	defer b.closing.RUnlock()
	if b.closed {
		return false, false
	}
	key := e.appendKey(make([]byte, 0, 64+len(e.Detail)))
	lock := &b.locks[maphash.Bytes(b.seed, key)%stripes]
	lock.Lock()
	defer lock.Unlock()
	present, ok := b.store.Get(key)
	if ok && present.entry.newerThan(e) {
		return false, false
	}
	if e.cost() > b.memory/largestShare {
		// What has been replaced must not be found any more.
		b.delete(key)
		return false, false
	}
	for range attempts {
		k := b.contents.keep(e, present)
		if present != nil && k.cost-present.cost > b.store.RemainingCost() {
			b.store.Del(key) // the store makes room for new keys only
		}
		if b.set(key, k) {
			return true, false
		}
		stuck = k.cost > b.store.MaxCost()
		b.delete(key)
		b.contents.drop(k)
		present = nil
	}
	return false, stuck
}

// set stores k and reports whether it can be found and there is room for it. There may
// be none although the store has evicted others, if what they were charged for is
// still in use.
func (b *bounded) set(key []byte, k *kept) bool {
	if !b.store.SetWithTTL(key, k, k.cost, retention) {
		return false
	}
	b.store.Wait()
	found, ok := b.store.Get(key)
	return ok && found == k && b.store.RemainingCost() >= 0
}

// delete forgets what is kept under a key, at once.
func (b *bounded) delete(key []byte) {
	b.store.Del(key)
	b.store.Wait()
}

func (b *bounded) setMemory(memory int64) {
	b.closing.Lock()
	defer b.closing.Unlock()
	if b.closed || b.memory == memory {
		return
	}
	b.memory = memory
	b.contents.setMemory(memory)
	if b.store.RemainingCost() < 0 {
		b.store.Clear() // the store itself would make room with the next new key only
	}
}

func (b *bounded) purge() {
	b.closing.Lock()
	defer b.closing.Unlock()
	if !b.closed {
		b.store.Clear()
	}
}

func (b *bounded) close() {
	b.closing.Lock()
	defer b.closing.Unlock()
	if !b.closed {
		b.closed = true
		b.store.Close()
	}
}
