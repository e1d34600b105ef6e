// Package fleet has several instances of Caddy outdate their lists together. The instances share a
// store. If the upstream announces a change to one instance, that instance publishes the change.
// The others receive and confirm it before any client hears of it.
//
// It knows nothing of requests, of feeds, and of how a store works.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

const (
	// life is how long a membership lasts, and so how long others wait at most for an instance
	// that has died.
	life = time.Second
	// beat is how often it is extended.
	beat = 250 * time.Millisecond
	// margin is by how much it ends sooner by our clock than by the store's, which may be a
	// little faster.
	margin = 10 * time.Millisecond
	// joinTimeout is how long the first attempt to join may take.
	joinTimeout = 2 * time.Second
	// firstPause is how long to wait before joining is tried again. If the store refuses that, or
	// takes longer than tooLate and memberships end for that, it is tried forbearance times at once,
	// as we may have been paused just then. After that the pause doubles each time, up to lastPause:
	// with each membership that ends, all lists are asked for again.
	firstPause, lastPause = 250 * time.Millisecond, 30 * time.Second
	tooLate               = life / 4
	forbearance           = 3
	// stable is after how long a membership is taken to last.
	stable = 5 * time.Second
)

// Member is this instance among those that share the lists of one upstream. Without a store of
// theirs it is alone, and does nothing.
type Member struct {
	cache *cache.Cache
	place func() (string, error)
	name  string // no other instance has it

	once  sync.Once
	first chan struct{} // closed when joining has been tried
	wake  chan struct{} // there is a change to be announced

	mu       sync.Mutex
	store    stores.Fleet // nil: there is none
	logger   *zap.Logger
	replaced chan struct{} // closed when store is another
	failed   error         // why no membership lasts, but for the store being away
	logged   logged
	ignored  bool // something was not kept, and that is logged
	// next is what is to be announced next, current what is; nil: nothing. unsent is what could
	// not be.
	next, current *round
	unsent        news
	confirmed     confirmed

	receiving    sync.Mutex
	lastReceived uint64 // announcements up to this number have outdated what they concern; 0: nothing is known

	membership membership
	known      introductions
}

// New returns a member that has c outdated by others, and others by what is announced in c. It
// does nothing before Run. place says what stands for the upstream in a store.
func New(place func() (string, error), c *cache.Cache) *Member {
	m := &Member{
		cache: c, place: place, name: newName(hostName()), first: make(chan struct{}), wake: make(chan struct{}, 1),
		replaced: make(chan struct{}), membership: membership{cache: c, ended: true},
		known: introductions{met: make(chan struct{}, 1), said: make(map[string][]string), warned: make(map[string]bool)},
	}
	c.OnChange(m.publish)
	return m
}

// Use makes s the store from now on. If it is no [stores.Fleet], this instance is alone.
func (m *Member) Use(s stores.Store, logger *zap.Logger) {
	fleet, _ := s.(stores.Fleet)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logger = logger
	if fleet == m.store {
		return
	}
	m.store, m.failed, m.ignored = fleet, nil, false
	m.confirmed.restart()
	close(m.replaced)
	m.replaced = make(chan struct{})
}

// Begin waits until joining has been tried. Whoever calls it fetches no list before.
func (m *Member) Begin(ctx context.Context) {
	if store, _ := m.inUse(); store != nil {
		select {
		case <-m.first:
		case <-time.After(joinTimeout):
		case <-ctx.Done():
		}
	}
	m.membership.begin()
}

// Together reports whether this instance receives the changes that are announced to others.
func (m *Member) Together() bool { return m.cache.ReceivesOthers() }

// Run keeps the membership until ctx ends.
func (m *Member) Run(ctx context.Context) {
	var sending sync.WaitGroup
	sending.Go(func() { m.send(ctx) })
	sending.Go(func() { m.introduce(ctx) })
	defer sending.Wait()
	for ctx.Err() == nil {
		store, replaced := m.inUse()
		if store == nil {
			select {
			case <-replaced:
			case <-ctx.Done():
			}
			continue
		}
		m.belong(ctx, store, replaced)
	}
}

func (m *Member) inUse() (stores.Fleet, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store, m.replaced
}

// belong keeps the membership in one store until that is replaced.
func (m *Member) belong(ctx context.Context, store stores.Fleet, replaced <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-replaced:
			cancel()
		case <-ctx.Done():
		}
	}()
	for failures, forgotten := 0, false; ctx.Err() == nil; {
		lasted, err := m.keepMembership(ctx, store, forgotten)
		forgotten = errors.Is(err, stores.ErrNoMember)
		m.report(ctx, err)
		if failures++; lasted {
			failures = 1
		}
		var pause time.Duration
		switch {
		case errors.Is(err, stores.ErrAway):
			pause, failures = firstPause, 0
		case errors.Is(err, stores.ErrNoMember):
			failures = 0
		case failures > forbearance:
			pause = min(firstPause<<min(failures-forbearance-1, 10), lastPause)
		}
		wait(ctx, time.Now().Add(pause), nil)
	}
	if next, _ := m.inUse(); next == nil || next == store { // otherwise it goes on there, perhaps by another name of the same
		m.leave(ctx, store)
	}
}

// report logs why there is no membership, once until one lasts.
func (m *Member) report(ctx context.Context, failure error) {
	if errors.Is(failure, stores.ErrAway) || errors.Is(failure, stores.ErrNoMember) || ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed == nil {
		m.logger.Warn("joining the other instances failed: this one hears of no changes from them", zap.Error(failure))
	}
	m.failed, m.logged = failure, logged{}
}

// Failure returns why this instance cannot join the others, or cannot stay with them; nil if it can, or
// if the store is away.
func (m *Member) Failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// lasts notes that a membership does.
func (m *Member) lasts() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = nil
}

// leave ends the membership. Nothing is outdated by that: up to now, all changes have been heard.
func (m *Member) leave(ctx context.Context, store stores.Fleet) {
	together := m.membership.leave()
	place, err := m.place()
	if err != nil || !together {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), life)
	defer cancel()
	_ = guard(func() error { return store.Leave(ctx, place, m.name) }) // or it ends by itself
}

// guard makes a panic of the store an error.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store panicked: %v", p)
		}
	}()
	return do()
}
