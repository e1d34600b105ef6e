package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Shared is what one instance sees of a [Trial] that several share: a clock that its own is
// behind or ahead of, leases, memberships, and a way there that may be cut.
type Shared struct {
	*Trial

	// Ahead is how far the store's clock is ahead of this instance's.
	Ahead time.Duration
	// Within is by how much the instance may be wrong about that.
	Within time.Duration

	failure  atomic.Pointer[error]
	delivery atomic.Pointer[func(stores.Announcement) int]
}

// SetAway cuts the way to the store for that reason; nil ends that.
func (s *Shared) SetAway(failure error) { s.failure.Store(&failure) }

// Now implements [stores.Shared].
func (s *Shared) Now(context.Context) (now time.Time, within time.Duration, err error) {
	if err := s.away(); err != nil {
		return time.Time{}, 0, err
	}
	return time.Now().Add(s.Ahead), s.Within, nil
}

// State implements [stores.Shared].
func (s *Shared) State() (state stores.State) {
	if failure := s.failure.Load(); failure != nil {
		state.Failure = *failure
	}
	return state
}

func (s *Shared) away() error {
	if failure := s.State().Failure; failure != nil {
		return fmt.Errorf("%w: %w", stores.ErrAway, failure)
	}
	return nil
}

// Load implements [stores.Store].
func (s *Shared) Load(ctx context.Context, key string) ([]byte, error) {
	if err := s.away(); err != nil {
		return nil, err
	}
	return s.Trial.Load(ctx, key)
}

// Save implements [stores.Store].
func (s *Shared) Save(ctx context.Context, key string, value []byte) error {
	if err := s.away(); err != nil {
		return err
	}
	return s.Trial.Save(ctx, key, value)
}

// Delete implements [stores.Store].
func (s *Shared) Delete(ctx context.Context, key string) error {
	if err := s.away(); err != nil {
		return err
	}
	return s.Trial.Delete(ctx, key)
}

// SaveAt implements [stores.Fleet].
func (s *Shared) SaveAt(ctx context.Context, key string, at time.Time, value []byte) error {
	return s.locked(ctx, "save", key, func() error {
		at := at.Truncate(time.Microsecond)
		if s.at[key].After(at) {
			return stores.ErrNewer
		}
		s.values[key], s.saved[key], s.at[key] = bytes.Clone(value), time.Now(), at
		return nil
	})
}

// Lease implements [stores.Fleet].
func (s *Shared) Lease(ctx context.Context, key, holder string, known time.Time, life time.Duration) (stores.Lease, error) {
	l := &lease{store: s, key: key, holder: holder}
	err := s.locked(ctx, "lease", key, func() error {
		switch other := s.leases[key]; {
		case s.at[key].After(known.Truncate(time.Microsecond)):
			return stores.ErrNewer
		case other != nil && time.Now().Before(other.until):
			return &stores.HeldError{Holder: other.holder}
		}
		s.leases[key], l.until = l, time.Now().Add(life)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// locked does what an operation is, unless it is to go wrong.
func (s *Shared) locked(ctx context.Context, operation, key string, do func() error) error {
	if err := s.away(); err != nil {
		return err
	}
	if err := s.ask(ctx, operation, key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return do()
}

// lease is one that an instance has taken.
type lease struct {
	store       *Shared
	key, holder string
	until       time.Time // guarded by the store's mutex
}

// Extend implements [stores.Lease].
func (l *lease) Extend(ctx context.Context, life time.Duration) error {
	return l.store.locked(ctx, "extend", l.key, func() error {
		if now := time.Now(); l.store.leases[l.key] != l || !now.Before(l.until) {
			return stores.ErrHeld
		}
		l.until = time.Now().Add(life)
		return nil
	})
}

// Release implements [stores.Lease].
func (l *lease) Release(ctx context.Context) error {
	return l.store.locked(ctx, "release", l.key, func() error {
		l.until = time.Time{}
		return nil
	})
}

// Interface guards
var _ stores.Fleet = (*Shared)(nil)
