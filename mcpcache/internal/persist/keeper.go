// Package persist keeps the feeds' snapshots in a store. With them it keeps until when callers
// without credentials are admitted. So the cache can serve lists after a restart, even while the
// upstream is down.
//
// It knows nothing of requests, of feeds, and of how a store works.
package persist

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

const (
	// loadTimeout is how long the feeds wait for everything that a store has. What
	// comes later is not used.
	loadTimeout = 3 * time.Second
	// reload is how often it is tried to load from a store that was away, until it is there.
	reload = time.Second
	// saveTimeout is how long one round of saving may take.
	saveTimeout = 10 * time.Second
	// resave is how often an unchanged snapshot is saved, with the time when it was
	// last fetched: by so much it may seem too old after a restart. It is also how
	// long after a failed round of saving the next one is.
	resave = time.Minute
	// announceDelay is how long after a change notice the stored copy is marked as
	// outdated: most changes are fetched before.
	announceDelay = 250 * time.Millisecond
	// ShutdownTimeout is how long a keeper takes at most to save what is left when it
	// ends. Somebody waits for a reload, and for a process to stop.
	ShutdownTimeout = 2 * time.Second
)

// Keeper keeps the feeds' snapshots in a store and brings them back after a
// restart. Saving never delays a feed: one goroutine saves what is newest.
type Keeper struct {
	cache   *cache.Cache
	clients Clients // nil: they are not kept
	// place returns the first part of every key, which stands for the upstream.
	place func() (string, error)

	saving chan struct{} // has room for one round of saving

	wake      chan struct{}
	announced chan struct{} // a change has been announced
	unsaved   chan struct{} // something could not be saved

	mu      sync.Mutex
	store   *boundedStore
	maxList int64 // the largest list that is brought back, in bytes
	logger  *zap.Logger
	copies  [revision.Count][revision.NumKinds]storedCopy
	// admitted is until when callers without credentials are admitted, stored what
	// the store has of that.
	admitted, stored [revision.Count]time.Time
	failed           error // why the last round of saving failed; nil: it did not
	unleased         error // why no lease could be asked for last; nil: one could
	unread           error // why what is stored could not be read at the start
	unloaded         bool  // the store was away, and what it has is still to be loaded
	ignored          int   // stored snapshots that were of no use
	// useless says of which keys the last was, as has been logged.
	useless map[slotKey]bool
	// leases are who fetches what, as far as that is known.
	leases map[slotKey]heldLease
}

// Clients are those of the upstream, which may be given other lists than the feeds.
type Clients interface {
	// Given returns those that the upstream gives a snapshot.
	Given(e *cache.Entry) []snapshot.Client
	// Give says that the upstream gave these a snapshot before a restart.
	Give(e *cache.Entry, clients []snapshot.Client)
}

// storedCopy is what is known of a snapshot's copy in the store.
type storedCopy struct {
	there  presence
	saved  time.Time
	digest [sha256.Size]byte // of the list, if it is there
	dirty  bool              // it is to be saved, or deleted
	// announced says that it is marked as outdated: a change has been announced since
	// the list was fetched.
	announced bool
	// asked is when the list was asked for by our clock, and asOf by the store's.
	asked, asOf time.Time
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

// New returns a Keeper of the upstream that key stands for, which watches the
// snapshots that feeds pin in c, and change notices. If instance is not nil, the
// copies are for this instance of Caddy alone, which it names.
func New(key string, instance func() (string, error), c *cache.Cache) *Keeper {
	kp := &Keeper{
		cache: c, place: placeOf(key, instance), wake: make(chan struct{}, 1), announced: make(chan struct{}, 1),
		unsaved: make(chan struct{}, 1), saving: make(chan struct{}, 1), leases: make(map[slotKey]heldLease),
	}
	c.OnPin(kp.pinned)
	c.Watch(func(cache.Change) { flight.Signal(kp.announced) })
	return kp
}

// Place returns the first part of every key, which stands for the upstream.
func (kp *Keeper) Place() (string, error) { return kp.place() }

// KeepClients has it kept to whom the upstream gives the snapshots. It has to be called before
// Load.
func (kp *Keeper) KeepClients(clients Clients) { kp.clients = clients }

// Renew has a snapshot saved once more, as it is given to others, too.
func (kp *Keeper) Renew(r revision.Revision, k revision.Kind) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	kp.of(slotKey{r, k}).dirty = true
	kp.signal()
}

// Use makes s the store from now on. All snapshots are saved to a store other than
// the one before. What is kept in a shared one is sealed with secrets. Lists of more than
// maxList bytes are not loaded.
func (kp *Keeper) Use(s stores.Store, secrets Secrets, maxList int64, logger *zap.Logger) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	kp.logger, kp.maxList = logger, maxList
	if kp.store != nil && kp.store.Store == s {
		return
	}
	kp.store, kp.failed, kp.unleased, kp.unread, kp.useless = newBoundedStore(s, secrets), nil, nil, nil, make(map[slotKey]bool)
	for _, key := range slotKeys() {
		*kp.of(key) = storedCopy{dirty: kp.cache.Pinned(key.revision, key.kind) != nil}
	}
	kp.signal()
}

// signal asks for a round of saving. The caller holds kp.mu.
func (kp *Keeper) signal() { flight.Signal(kp.wake) }

// unsignal takes back what signal asked for. The caller holds kp.mu.
func (kp *Keeper) unsignal() {
	select {
	case <-kp.wake:
	default:
	}
}

// of returns the copy of a snapshot. The caller holds kp.mu.
func (kp *Keeper) of(key slotKey) *storedCopy { return &kp.copies[key.revision][key.kind] }

// Store returns the store in use.
func (kp *Keeper) Store() stores.Store {
	store, _ := kp.current()
	return store.Store
}

// Logger returns the logger of whoever has set the store.
func (kp *Keeper) Logger() *zap.Logger {
	_, logger := kp.current()
	return logger
}

func (kp *Keeper) current() (*boundedStore, *zap.Logger) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	return kp.store, kp.logger
}

func (k slotKey) in(place string) string {
	return fmt.Sprintf("%s/%s.%s.snapshot", place, k.revision, k.kind)
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

// Load loads every snapshot that the feeds have not fetched yet. What cannot be used
// is left alone; a store that fails delays the feeds by no more than loadTimeout. What a
// store has that is away is loaded by Run, once the store is there.
func (kp *Keeper) Load(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	_, logger := kp.current()
	place, failure := kp.place()
	if failure == nil {
		for _, key := range slotKeys() {
			if kp.cache.Pinned(key.revision, key.kind) == nil {
				failure = cmp.Or(failure, kp.loadOne(ctx, key, key.in(place)))
			}
		}
	}
	away := errors.Is(failure, stores.ErrAway)
	kp.mu.Lock()
	defer kp.mu.Unlock()
	kp.unloaded = away
	if failure != nil && !away {
		kp.unread = failure
		logger.Warn("loading stored snapshots failed", zap.Error(failure))
	}
}

// soon returns a channel that says when to load again; nil if all is loaded.
func (kp *Keeper) soon() <-chan time.Time {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	if !kp.unloaded {
		return nil
	}
	return time.After(reload)
}

// loadOne loads one snapshot, if there is one.
func (kp *Keeper) loadOne(ctx context.Context, key slotKey, path string) error {
	store, _ := kp.current()
	limit := kp.largest()
	terms, err := store.terms(ctx, path)
	if err != nil {
		return err
	}
	size, err := store.Size(ctx, path)
	var data []byte
	if err == nil && size <= limit+snapshot.Overhead {
		data, err = store.Load(ctx, path)
		size = int64(len(data))
	}
	if errors.Is(err, fs.ErrNotExist) {
		kp.note(store, key, storedCopy{there: notThere})
		return nil
	}
	if err != nil && !errors.Is(err, stores.ErrForeign) {
		return err
	}
	var state snapshot.State
	var e *cache.Entry
	if err == nil {
		e, state, err = decode(data, size, key, limit, terms)
	}
	if kp.ignore(key, path, err) {
		return nil
	}
	if kp.clients != nil {
		kp.clients.Give(e, state.Clients)
	}
	if e.Lifetime > 0 { // it is not fresh: nobody here has seen the notices of changes since it was fetched
		e.Lifetime = time.Nanosecond
	}
	kp.cache.Restore(e)
	if store.shared == nil {
		kp.remember(key.revision, state.Admitted)
	}
	kp.note(store, key, storedCopy{
		there: isThere, digest: e.Body.Digest, announced: e.Mark.BeforeStart(), asked: e.Asked, asOf: state.AsOf,
	})
	return nil
}

// errLarge says that a stored list is larger than those that the feeds keep.
var errLarge = errors.New("list is larger than max_list allows")

// decode makes a snapshot of what was stored, which has size bytes.
func decode(data []byte, size int64, key slotKey, limit int64, terms snapshot.Terms) (*cache.Entry, snapshot.State, error) {
	if size > limit+snapshot.Overhead {
		return nil, snapshot.State{}, errLarge
	}
	e, state, err := snapshot.Decode(data, key.revision, key.kind, time.Now(), terms)
	if err == nil && int64(len(e.Body.Bytes)) > limit {
		return nil, snapshot.State{}, errLarge
	}
	return e, state, err
}

func (kp *Keeper) largest() int64 {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	return kp.maxList
}

// note records what has become of a copy, unless another store is in use by now. A
// copy that has become dirty meanwhile stays so, and one that could not be saved waits
// for the next round: a store that fails at once would be asked without a pause.
func (kp *Keeper) note(store *boundedStore, key slotKey, now storedCopy) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	if kp.store != store {
		return
	}
	c := kp.of(key)
	now.dirty = now.dirty || c.dirty
	*c = now
	if !now.dirty && kp.fetched(key, now) {
		kp.signal()
	}
}

// fetched reports whether a copy is marked as outdated although the change has been
// fetched since.
// The caller holds kp.mu.
func (kp *Keeper) fetched(key slotKey, c storedCopy) bool {
	return c.announced && !kp.isOutdated(kp.cache.Pinned(key.revision, key.kind))
}

// isOutdated reports whether a change of a snapshot has been announced and not been
// fetched. e may be nil.
func (kp *Keeper) isOutdated(e *cache.Entry) bool {
	return e != nil && !kp.cache.Current(e.Kind, e.Mark)
}

// inFleet reports whether other instances want to know that a list was fetched. The caller
// holds kp.mu.
func (kp *Keeper) inFleet() bool {
	if kp.store == nil {
		return false
	}
	_, fleet := kp.store.Store.(stores.Fleet)
	return fleet
}

// pinned is called for each snapshot that a feed has pinned.
func (kp *Keeper) pinned(r revision.Revision, k revision.Kind, same bool) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	key := slotKey{r, k}
	c := kp.of(key)
	if e := kp.cache.Pinned(r, k); e != nil && !e.Asked.IsZero() && e.Asked.Equal(c.asked) {
		return // it was taken from there
	}
	if !same || kp.inFleet() || time.Since(c.saved) >= resave || kp.fetched(key, *c) {
		c.dirty = true
		kp.signal()
	}
}
