package persist

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

const (
	largestList = 1 << 20 // the largest list
	toolsKey    = "upstream/2026-07-28.tools.snapshot"
	promptsKey  = "upstream/2026-07-28.prompts.snapshot"
)

// trial is a Keeper at work in a bubble.
type trial struct {
	*Keeper

	t     *testing.T
	cache *cache.Cache
	store *storetest.Trial
	log   *zaptest.ObservedLogs
	stop  func()
}

// newTrial returns a Keeper that loads and saves. All but its stop has to
// happen in a bubble.
func newTrial(t *testing.T) *trial {
	t.Helper()
	return newTrialOf(t, storetest.NewTrial(), nil)
}

// newTrialOf is a trial with that store, of an upstream that is all instances'
// or that instance's own.
func newTrialOf(t *testing.T, store *storetest.Trial, instance func() (string, error)) *trial {
	t.Helper()
	c, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	core, log := zaptest.New(zap.InfoLevel)
	r := &trial{Keeper: New("upstream", instance, c), t: t, cache: c, store: store, log: log}
	r.Use(r.store, nil, largestList, zap.New(core))
	return r
}

// restarted is the trial after a restart of its process.
func (r *trial) restarted() *trial {
	r.t.Helper()
	next := newTrialOf(r.t, r.store, nil)
	next.Load(r.t.Context())
	return next
}

// start has the Keeper save until stop, which waits for its end.
func (r *trial) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	r.t.Cleanup(r.stop)
}

// entryOf is a snapshot of one item of that name.
func entryOf(t *testing.T, k revision.Kind, name string, p cache.Partition) *cache.Entry {
	t.Helper()
	result := fmt.Appendf(nil, `{%q:[{%q:%q}],"ttlMs":60000}`, k.ItemsKey(), k.IDKey(), name)
	page, err := message.ParsePage(result, k)
	if err != nil {
		t.Fatal(err)
	}
	return &cache.Entry{
		Kind: k, Revision: revision.V20260728, Partition: p, Body: message.Single(k, page),
		Fetched: time.Now(), Lifetime: time.Minute, Mark: cache.Start(),
	}
}

// fetched plays a feed that has fetched e just now, and waits for what comes of it.
func (r *trial) fetched(e *cache.Entry) {
	e.Mark = r.cache.Mark(e.Kind)
	r.cache.Pin(e)
	synctest.Wait()
}

func (r *trial) want(what string, operations ...string) {
	r.t.Helper()
	if got := r.store.Take(); !slices.Equal(got, operations) {
		r.t.Errorf("%s: the store was asked to %q, want %q", what, got, operations)
	}
}

// wantLog fails unless so many lines of that message were logged.
func (r *trial) wantLog(what, message string, lines int) {
	r.t.Helper()
	if got := r.log.FilterMessage(message).Len(); got != lines {
		r.t.Errorf("%s: %d lines %q, want %d: %v", what, got, message, lines, r.log.All())
	}
}

// stored returns the name of the item in a stored list, or "".
func (r *trial) stored(key string, k revision.Kind) string {
	e, _, err := snapshot.Decode(r.store.Get(key), revision.V20260728, k, time.Now(), snapshot.Terms{})
	if err != nil {
		return ""
	}
	return e.Body.Names()[0]
}
