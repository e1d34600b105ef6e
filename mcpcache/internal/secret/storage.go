package secret

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

const (
	// storageKey is where the secrets are in a storage, in the form of [Parse].
	storageKey = "mcp_cache/secret/ring"
	// storageLock is held by whoever makes them.
	storageLock = "mcp_cache/secret"
	// unlockFor is how long giving the lock back may take.
	unlockFor = 5 * time.Second
)

// Storage is what is needed of Caddy's storage, as certmagic's Storage has it. Load
// returns an error that satisfies errors.Is(err, fs.ErrNotExist) if there is nothing.
type Storage interface {
	Lock(ctx context.Context, name string) error
	Unlock(ctx context.Context, name string) error
	Load(ctx context.Context, key string) ([]byte, error)
	Store(ctx context.Context, key string, value []byte) error
}

// errDamaged says what can be done about content that cannot be read. Secrets made in its
// place would be other ones than those of instances that have read it before.
var errDamaged = errors.New("what is stored at " + storageKey + " is damaged; delete it to have new secrets made")

// Stored returns the secrets that are kept in a storage. If there are none they are made:
// of several instances that share the storage, by one.
func Stored(ctx context.Context, storage Storage) (ring Ring, err error) {
	if ring, err = load(ctx, storage); !errors.Is(err, fs.ErrNotExist) {
		return ring, err
	}
	if err := storage.Lock(ctx, storageLock); err != nil {
		return nil, fmt.Errorf("locking %s in storage: %w", storageLock, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockFor)
		defer cancel()
		if e := storage.Unlock(ctx, storageLock); e != nil && err == nil {
			err = fmt.Errorf("unlocking %s in storage: %w", storageLock, e)
		}
	}()
	if ring, err = load(ctx, storage); !errors.Is(err, fs.ErrNotExist) {
		return ring, err
	}
	if err := storage.Store(ctx, storageKey, Ring{New()}.encode()); err != nil {
		return nil, fmt.Errorf("storing %s: %w", storageKey, err)
	}
	// What is there in the end counts: some storages' locks do not hold in every case.
	return load(ctx, storage)
}

// load returns what is in a storage.
func load(ctx context.Context, storage Storage) (Ring, error) {
	content, err := storage.Load(ctx, storageKey)
	if err != nil {
		return nil, fmt.Errorf("loading %s from storage: %w", storageKey, err)
	}
	ring, err := Parse(content)
	if err != nil {
		return nil, errDamaged
	}
	return ring, nil
}
