package keeper

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// upkeep is about how often a store's copies are looked after.
	upkeep = time.Hour
	// touch is how often a copy is saved however little changes: that is how
	// other instances see that it is in use.
	touch = 24 * time.Hour
	// unused is how long nobody has saved a copy that is deleted: no
	// configuration can reach it any more.
	unused = 7 * 24 * time.Hour
)

// untilUpkeep spreads the upstreams of an instance, and instances.
func untilUpkeep() time.Duration {
	return time.Duration((0.75 + 0.25*rand.Float64()) * float64(upkeep))
}

// keep has the copies saved that have not been saved for long, and deletes those
// that nobody has saved for much longer, of whatever upstream and instance.
func (kp *Keeper) keep(ctx context.Context) {
	kp.mu.Lock()
	store, logger := kp.store, kp.logger
	for _, key := range slotKeys() {
		if c := kp.of(key); c.there == isThere && time.Since(c.saved) >= touch {
			c.dirty = true
		}
	}
	kp.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := store.Sweep(ctx, time.Now().Add(-unused)); err != nil && ctx.Err() == nil {
		logger.Warn("deleting unused snapshots failed", zap.Error(err))
	}
}

// placeOf returns where the snapshots of the upstream are that key stands for.
// An instance is asked for its name when it is needed, and once.
func placeOf(key string, instance func() (string, error)) func() (string, error) {
	if instance == nil {
		return func() (string, error) { return key, nil }
	}
	return sync.OnceValues(func() (string, error) {
		name, err := instance()
		if err != nil {
			return "", fmt.Errorf("finding the name of this instance: %w", err)
		}
		sum := sha256.Sum256([]byte(key + " " + name))
		return hex.EncodeToString(sum[:]), nil
	})
}
