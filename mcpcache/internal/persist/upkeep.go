package persist

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
	// upkeep is about how often unused copies are deleted, and used ones saved again.
	upkeep = time.Hour
	// touch is how often a copy is saved even if nothing changes, so that other
	// instances see that it is in use.
	touch = 24 * time.Hour
	// unused is after how long without a save a copy is deleted: no configuration
	// uses it any more.
	unused = 7 * 24 * time.Hour
)

// untilUpkeep returns how long to wait for the next upkeep. It is random, so that not
// all upstreams and instances do it at once.
func untilUpkeep() time.Duration {
	return time.Duration((0.75 + 0.25*rand.Float64()) * float64(upkeep))
}

// keep saves copies that have not been saved for a day, and deletes those of all
// upstreams and instances that have not been for a week.
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

// placeOf returns a function that returns the first part of the keys of an upstream's
// snapshots: key, or a hash of key and the name of the instance, if not nil. It asks
// for that name when it is needed, until it is told: at the first start of all, Caddy may just
// be writing it.
func placeOf(key string, instance func() (string, error)) func() (string, error) {
	if instance == nil {
		return func() (string, error) { return key, nil }
	}
	var mu sync.Mutex
	place := ""
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if place != "" {
			return place, nil
		}
		name, err := instance()
		if err != nil {
			return "", fmt.Errorf("finding the name of this instance: %w", err)
		}
		sum := sha256.Sum256([]byte(key + " " + name))
		place = hex.EncodeToString(sum[:])
		return place, nil
	}
}
