package mcpcache

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
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
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// trialStore keeps values in memory and remembers what it was asked for.
type trialStore struct {
	mu     sync.Mutex
	values map[string][]byte
	saved  map[string]time.Time
	asked  []string // "save KEY" and so on
	// trouble is called first of all, without a lock.
	trouble func(ctx context.Context, operation, key string) error
}

func newTrialStore() *trialStore {
	return &trialStore{values: make(map[string][]byte), saved: make(map[string]time.Time)}
}

func (s *trialStore) ask(ctx context.Context, operation, key string) error {
	s.mu.Lock()
	s.asked = append(s.asked, operation+" "+key)
	trouble := s.trouble
	s.mu.Unlock()
	if trouble != nil {
		return trouble(ctx, operation, key)
	}
	return nil
}

func (s *trialStore) Load(ctx context.Context, key string) ([]byte, error) {
	if err := s.ask(ctx, "load", key); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[key]
	if !ok {
		return nil, fmt.Errorf("loading %s: %w", key, fs.ErrNotExist)
	}
	return value, nil
}

func (s *trialStore) Save(ctx context.Context, key string, value []byte) error {
	if err := s.ask(ctx, "save", key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key], s.saved[key] = value, time.Now()
	return nil
}

func (s *trialStore) Delete(ctx context.Context, key string) error {
	if err := s.ask(ctx, "delete", key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, key)
	return nil
}

func (s *trialStore) Size(ctx context.Context, key string) (int64, error) {
	if err := s.ask(ctx, "size", key); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[key]
	if !ok {
		return 0, fmt.Errorf("looking at %s: %w", key, fs.ErrNotExist)
	}
	return int64(len(value)), nil
}

func (s *trialStore) Sweep(ctx context.Context, since time.Time) error {
	if err := s.ask(ctx, "sweep", ""); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, saved := range s.saved {
		if !saved.After(since) {
			delete(s.values, key)
		}
	}
	return nil
}

// setTrouble makes what is asked for from now on go wrong; nil ends that.
func (s *trialStore) setTrouble(trouble func(ctx context.Context, operation, key string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = trouble
}

// take returns the operations since the last call that change something.
func (s *trialStore) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := slices.DeleteFunc(s.asked, func(a string) bool {
		return !strings.HasPrefix(a, "save ") && !strings.HasPrefix(a, "delete ")
	})
	s.asked = nil
	slices.Sort(asked)
	return asked
}

// count returns how often it was asked for something since take.
func (s *trialStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// size returns how many values there are.
func (s *trialStore) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values)
}

func (s *trialStore) get(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key]
}

const (
	warmList    = 1 << 20 // the largest list
	warmTools   = "upstream/2026-07-28.tools.snapshot"
	warmPrompts = "upstream/2026-07-28.prompts.snapshot"
)

// trial is a warmer at work in a bubble.
type trial struct {
	*warmer

	t     *testing.T
	cache *cache.Cache
	store *trialStore
	log   *zaptest.ObservedLogs
	stop  func()
}

// newTrial returns a warmer that loads and saves. All but its stop has to
// happen in a bubble.
func newTrial(t *testing.T) *trial {
	t.Helper()
	return newTrialOf(t, newTrialStore(), nil)
}

// newTrialOf is a trial with that store, of an upstream that is all instances'
// or that instance's own.
func newTrialOf(t *testing.T, store *trialStore, instance func() (string, error)) *trial {
	t.Helper()
	c, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	core, log := zaptest.New(zap.InfoLevel)
	r := &trial{warmer: newWarmer("upstream", instance, c), t: t, cache: c, store: store, log: log}
	r.use(r.store, warmList, zap.New(core))
	return r
}

// restarted is the trial after a restart of its process.
func (r *trial) restarted() *trial {
	r.t.Helper()
	next := newTrialOf(r.t, r.store, nil)
	next.load(r.t.Context())
	return next
}

// start has the warmer save until stop, which waits for its end.
func (r *trial) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.run(ctx) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	r.t.Cleanup(r.stop)
}

// warmEntry is a snapshot of one item of that name.
func warmEntry(t *testing.T, k revision.Kind, name string, p cache.Partition) *cache.Entry {
	t.Helper()
	result := fmt.Appendf(nil, `{%q:[{%q:%q}],"ttlMs":60000}`, k.ItemsKey(), k.IDKey(), name)
	page, err := message.ParsePage(result, k)
	if err != nil {
		t.Fatal(err)
	}
	return &cache.Entry{
		Kind: k, Revision: revision.V20260728, Partition: p, Body: message.Single(k, page),
		Fetched: time.Now(), Lifetime: time.Minute,
	}
}

// fetched plays a feed that has fetched e, and waits for what comes of it.
func (r *trial) fetched(e *cache.Entry, same bool) {
	r.cache.Pin(e)
	r.refreshed(e.Revision, e.Kind, same)
	synctest.Wait()
}

func (r *trial) want(what string, operations ...string) {
	r.t.Helper()
	if got := r.store.take(); !slices.Equal(got, operations) {
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
	e, err := snapshot.Decode(r.store.get(key), revision.V20260728, k, time.Now())
	if err != nil {
		return ""
	}
	return e.Body.Names()[0]
}

// Interface guards
var (
	_ stores.Store   = (*trialStore)(nil)
	_ stores.Sizer   = (*trialStore)(nil)
	_ stores.Sweeper = (*trialStore)(nil)
)
