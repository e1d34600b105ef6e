package persist

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// boundedStore calls a store once at a time, and waits no longer than the context of
// a call lasts. A store that hangs holds one goroutine, which ends when the store
// returns; a panic is an error.
type boundedStore struct {
	stores.Store

	shared  stores.Shared // the store, if it is one; nil if it is trusted
	secrets Secrets       // of what is in a shared one
	free    chan struct{} // holds one token while the store is idle
}

func newBoundedStore(s stores.Store, secrets Secrets) *boundedStore {
	b := &boundedStore{Store: s, secrets: secrets, free: make(chan struct{}, 1)}
	b.shared, _ = s.(stores.Shared)
	b.free <- struct{}{}
	return b
}

// Load implements [stores.Store].
func (b *boundedStore) Load(ctx context.Context, key string) ([]byte, error) {
	return callFor(ctx, b, func() ([]byte, error) { return b.Store.Load(ctx, key) })
}

// Save implements [stores.Store].
func (b *boundedStore) Save(ctx context.Context, key string, value []byte) error {
	return b.call(ctx, func() error { return b.Store.Save(ctx, key, value) })
}

// keep saves a value as of that time, unless others have saved a newer one.
func (b *boundedStore) keep(ctx context.Context, key string, at time.Time, value []byte) error {
	fleet, can := b.Store.(stores.Fleet)
	if !can {
		return b.Save(ctx, key, value)
	}
	err := b.call(ctx, func() error { return fleet.SaveAt(ctx, key, at, value) })
	if errors.Is(err, stores.ErrNewer) {
		return nil
	}
	return err
}

// Delete implements [stores.Store].
func (b *boundedStore) Delete(ctx context.Context, key string) error {
	return b.call(ctx, func() error { return b.Store.Delete(ctx, key) })
}

// Size implements [stores.Sizer]. It returns -1 if the store does not.
func (b *boundedStore) Size(ctx context.Context, key string) (int64, error) {
	sizer, can := b.Store.(stores.Sizer)
	if !can {
		return -1, nil
	}
	return callFor(ctx, b, func() (int64, error) { return sizer.Size(ctx, key) })
}

// Sweep implements [stores.Sweeper]. It does nothing if the store does not.
func (b *boundedStore) Sweep(ctx context.Context, since time.Time) error {
	sweeper, can := b.Store.(stores.Sweeper)
	if !can {
		return nil
	}
	return b.call(ctx, func() error { return sweeper.Sweep(ctx, since) })
}

// callFor calls the store once it is idle, and returns what that returns.
func callFor[T any](ctx context.Context, b *boundedStore, do func() (T, error)) (value T, err error) {
	values := make(chan T, 1)
	err = b.call(ctx, func() error {
		value, err := do()
		values <- value
		return err
	})
	if err == nil {
		value = <-values
	}
	return value, err
}

// call calls the store once it is idle.
func (b *boundedStore) call(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("asking the store: %w", err)
	}
	select {
	case <-b.free:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the store: %w", ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("store panicked: %v", p)
			}
			b.free <- struct{}{}
		}()
		done <- do()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the store's answer: %w", ctx.Err())
	}
}
