package mcpcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
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
func (w *warmer) keep(ctx context.Context) {
	w.mu.Lock()
	store, logger := w.store, w.logger
	for _, key := range slotKeys() {
		if c := w.of(key); c.there == isThere && time.Since(c.saved) >= touch {
			c.dirty = true
		}
	}
	w.mu.Unlock()
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

// instanceName returns Caddy's own name of this instance, which it keeps in its
// data directory, wherever its storage is.
func instanceName() (string, error) {
	id, err := caddy.InstanceID()
	return id.String(), err
}

// ownUpstream reports whether other instances with this configuration may mean
// other servers by it. They mean the same if it names their addresses, none of
// them on loopback.
func ownUpstream(raw json.RawMessage) bool {
	var proxy struct {
		Upstreams []struct {
			Dial string `json:"dial"`
		} `json:"upstreams"`
		Dynamic json.RawMessage `json:"dynamic_upstreams"`
	}
	if json.Unmarshal(raw, &proxy) != nil || len(proxy.Upstreams) == 0 || proxy.Dynamic != nil {
		return true
	}
	for _, placeholder := range []string{"{env.", "{file.", "{system."} {
		if strings.Contains(string(raw), placeholder) {
			return true
		}
	}
	for _, upstream := range proxy.Upstreams {
		if !sharedAddress(upstream.Dial) {
			return true
		}
	}
	return false
}

// sharedAddress reports whether a dial address means the same to all hosts.
func sharedAddress(dial string) bool {
	address, err := caddy.ParseNetworkAddress(dial)
	if err != nil || address.IsUnixNetwork() || address.IsFdNetwork() || strings.Contains(dial, "{") {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(address.Host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return false
	}
	ip, err := netip.ParseAddr(host)
	ip = ip.Unmap()
	return err != nil || !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsLinkLocalUnicast()
}
