package caddystore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"time"
)

const (
	// sweptKey holds when the storage was swept last, by whichever instance.
	sweptKey = prefix + "swept"
	// sweepEvery is how often that is done.
	sweepEvery = 24 * time.Hour
	// folder is where our part of the storage is.
	folder = "mcp_cache"
)

// Sweep implements [stores.Sweeper]. One instance sweeps, once a day. A storage that
// does not tell when a value was stored keeps everything.
func (c *Caddy) Sweep(ctx context.Context, since time.Time) error {
	now := time.Now()
	// What cannot be read is as good as never.
	value, _ := c.storage.Load(ctx, sweptKey)
	last, _ := time.Parse(time.RFC3339, string(value))
	if age := now.Sub(last); age >= 0 && age < sweepEvery {
		return nil
	}
	if err := c.storage.Store(ctx, sweptKey, []byte(now.UTC().Format(time.RFC3339))); err != nil {
		return fmt.Errorf("saving to storage: %w", err)
	}
	keys, err := c.storage.List(ctx, folder, true)
	if err != nil {
		return fmt.Errorf("listing storage: %w", err)
	}
	inUse := make(map[string]bool) // folders
	for _, key := range keys {
		inUse[path.Dir(key)] = true
	}
	// If time runs out, the next sweep begins elsewhere.
	start := 0
	if len(keys) > 0 {
		start = rand.IntN(len(keys))
	}
	var failure error
	for i := range keys {
		if err := ctx.Err(); err != nil {
			return cmp.Or(failure, fmt.Errorf("sweeping storage: %w", err))
		}
		key := keys[(start+i)%len(keys)]
		failure = cmp.Or(failure, c.sweepOne(ctx, key, inUse[key], since))
	}
	return failure
}

// sweepOne deletes what is in the folder of an upstream, the rest of a write
// that was cut off among it, or such a folder when it is empty, if it is older
// than that.
func (c *Caddy) sweepOne(ctx context.Context, key string, inUse bool, since time.Time) error {
	below, ours := strings.CutPrefix(key, prefix)
	parts := strings.Split(below, "/")
	if !ours || inUse || len(parts) > 2 || !isDigest(parts[0]) {
		return nil
	}
	info, err := c.storage.Stat(ctx, key)
	if err != nil || info.Modified.IsZero() || info.Modified.After(since) || len(parts) == 1 && info.IsTerminal {
		return nil //nolint:nilerr // it has gone meanwhile, or nobody knows how old it is
	}
	if err := c.storage.Delete(ctx, key); err != nil {
		return fmt.Errorf("deleting from storage: %w", err)
	}
	return nil
}

// isDigest reports whether that is what the keys of upstreams begin with: a
// SHA-256 in hexadecimal digits.
func isDigest(s string) bool {
	digest, err := hex.DecodeString(s)
	return err == nil && len(digest) == sha256.Size
}
