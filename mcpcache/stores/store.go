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
	"errors"
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
// are given while the upstream is away. A [Shared] one is not trusted with that.
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

// Shared is a [Store] in another process, which instances on several machines share,
// and perhaps others with them. What is kept there is sealed with secrets that it does not
// know, and its times are by its own clock, for those of the instances may differ.
type Shared interface {
	Store

	// Now returns the time by the store's clock, and by how much that may be wrong. It fails
	// with [ErrAway] while the store is away.
	Now(ctx context.Context) (now time.Time, within time.Duration, err error)

	// State says whether the store can be reached. It waits for nothing.
	State() State
}

// State says whether a [Shared] store can be reached.
type State struct {
	// Failure is why the store is away, in a line without credentials; nil while it can be reached.
	Failure error
	// Since is when that began.
	Since time.Time
}

var (
	// ErrAway says that a [Shared] store could not be asked, which its state tells of. Its
	// users log nothing of it.
	ErrAway = errors.New("the store is away")
	// ErrForeign says that a key has something that no store of this kind has saved.
	ErrForeign = errors.New("it is not from here")
)
