// Package stores says what a store is: a guest of the http.mcp_cache.stores
// namespace that keeps snapshots outside the process, so that lists are there
// again after a restart, even while the upstream is not. The stores themselves
// are in packages below this one, which knows nothing of them, nor of Caddy.
//
// A store is a Caddy module that implements [Store]. It is never asked while a
// client waits: snapshots are read once, when the feeds start, and written in
// the background.
package stores

import (
	"context"
	"time"
)

// Namespace is the Caddy module namespace of the guests.
const Namespace = "http.mcp_cache.stores"

// Store keeps values by their keys. Keys are paths of letters, digits, '.',
// '-', '_' and '/'. All methods may be called from several goroutines at once
// and must not wait longer than ctx lasts.
//
// A store may be shared by several instances: a key belongs to one upstream,
// one credential and one list, and every instance writes the same there; where
// they might not, as with upstreams on loopback, the key is the instance's own.
// What is read is checked against a digest, so a store may lose or damage a value.
// It is trusted not to make one up: whoever can write to it says what callers
// are given while the upstream is away.
type Store interface {
	// Load returns the value that was saved last. Its error satisfies
	// errors.Is(err, fs.ErrNotExist) if there is none.
	Load(ctx context.Context, key string) ([]byte, error)

	// Save keeps a value in place of the one before. Whoever loads meanwhile
	// gets the one or the other, never a part.
	Save(ctx context.Context, key string, value []byte) error

	// Delete forgets the value of a key. That there is none is no error.
	Delete(ctx context.Context, key string) error
}

// Sizer is a [Store] that can tell how large a value is without loading it.
// What is larger than the `max_list` of a handler is then not loaded at all.
type Sizer interface {
	// Size returns the length of the value that was saved last, in bytes. Its
	// error satisfies errors.Is(err, fs.ErrNotExist) if there is none.
	Size(ctx context.Context, key string) (int64, error)
}

// Sweeper is a [Store] that has to be asked to delete what nobody needs any
// more: the values of configurations that are gone. A store that forgets by
// itself what was not saved for a week need not be one.
type Sweeper interface {
	// Sweep deletes every value that was not saved since then. What is still in
	// use is saved every day, whichever instance uses it. Sweep is called about
	// once an hour for each upstream, and may do nothing.
	Sweep(ctx context.Context, since time.Time) error
}
