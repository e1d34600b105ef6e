package persist

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Secrets returns the secrets with which instances seal what they share, once they are
// there.
type Secrets func(ctx context.Context) (secret.Ring, error)

// Fleet is how a store is that instances share.
type Fleet struct {
	stores.State
	// Trouble is why saving to it, or taking a lease, failed last, or reading from it at the start;
	// nil if it did not.
	Trouble error
	// Ignored is how many stored snapshots were of no use: damaged, of others, or sealed with
	// other secrets.
	Ignored int
	// Leases are the lists that are being asked for, as far as this instance knows.
	Leases []Lease
}

// Fleet returns how the store is, or nil if it is not shared.
func (kp *Keeper) Fleet() *Fleet {
	kp.mu.Lock()
	shared, fleet := kp.store.shared, &Fleet{Trouble: cmp.Or(kp.failed, kp.unleased, kp.unread), Ignored: kp.ignored, Leases: kp.currentLeases()}
	kp.mu.Unlock()
	if shared == nil {
		return nil
	}
	fleet.State = shared.State()
	return fleet
}

// ignore reports whether a stored snapshot is of no use, for that reason. Those are counted, and
// of each key the first is logged until there is one of use.
func (kp *Keeper) ignore(key slotKey, path string, reason error) bool {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	known := kp.useless[key]
	if kp.useless[key] = reason != nil; reason == nil {
		return false
	}
	if kp.ignored++; !known {
		kp.logger.Warn("stored snapshot ignored", zap.String("key", path), zap.Error(reason))
	}
	return true
}

// terms returns those on which the snapshot of a key is written and read.
func (b *boundedStore) terms(ctx context.Context, key string) (terms snapshot.Terms, err error) {
	if b.shared == nil {
		return terms, nil
	}
	if terms.Secrets, err = b.secrets(ctx); err != nil {
		return terms, err
	}
	type clock struct {
		now    time.Time
		within time.Duration
	}
	said, err := callFor(ctx, b, func() (c clock, err error) {
		c.now, c.within, err = b.shared.Now(ctx)
		return c, err
	})
	if err != nil {
		return terms, fmt.Errorf("asking the store for the time: %w", err)
	}
	terms.Place, terms.Ahead, terms.Within = key, time.Until(said.now), said.within
	return terms, nil
}
