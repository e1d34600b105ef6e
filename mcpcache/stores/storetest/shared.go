package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Shared is what one instance sees of a [Trial] that several share: a clock that its own is
// behind or ahead of, and a way there that may be cut.
type Shared struct {
	*Trial

	// Ahead is how far the store's clock is ahead of this instance's.
	Ahead time.Duration

	failure atomic.Pointer[error]
}

// SetAway cuts the way to the store for that reason; nil ends that.
func (s *Shared) SetAway(failure error) { s.failure.Store(&failure) }

// Now implements [stores.Shared].
func (s *Shared) Now(context.Context) (time.Time, error) {
	if err := s.away(); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(s.Ahead), nil
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

// Interface guards
var _ stores.Shared = (*Shared)(nil)
