package fleet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// instance is one of several that share a store.
type instance struct {
	*Member

	store *storetest.Shared
	core  zapcore.Core
	log   *observer.ObservedLogs
	end   func()
}

// newInstance returns one that has not begun.
func newInstance(t *testing.T, trial *storetest.Trial) *instance {
	t.Helper()
	c, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	core, log := observer.New(zap.InfoLevel)
	i := &instance{store: &storetest.Shared{Trial: trial}, core: core, log: log}
	i.Member = New(func() (string, error) { return "place", nil }, c)
	i.Use(i.store, zap.New(core))
	t.Cleanup(c.Close)
	c.Watch(func(cache.Change) { i.Together() }) // as feeds do, which hold locks of their own
	return i
}

// run has it join, and waits until that has been tried.
func (i *instance) run(t *testing.T) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.Run(ctx)
	}()
	i.end = func() {
		cancel()
		<-ended
	}
	i.Begin(ctx)
	return i
}

// newFleet returns instances that have joined, a second after it was made.
func newFleet(t *testing.T, n int) (fleet []*instance, trial *storetest.Trial) {
	t.Helper()
	trial = storetest.NewTrial()
	for range n {
		fleet = append(fleet, newInstance(t, trial).run(t))
	}
	time.Sleep(life)
	synctest.Wait()
	t.Cleanup(func() {
		for _, i := range fleet {
			if i.end(); len(i.warnings()) > 0 {
				t.Errorf("the log has %v", i.warnings())
			}
		}
	})
	return fleet, trial
}

// warnings returns what the log has but for who is together.
func (i *instance) warnings() []observer.LoggedEntry {
	return i.log.FilterLevelExact(zap.WarnLevel).All()
}

// fetched returns a list, or the contents of a resource, that an instance has just fetched.
func (i *instance) fetched(k revision.Kind) *cache.Entry {
	e := &cache.Entry{Kind: k, Revision: revision.LatestModern, Lifetime: time.Hour, Fetched: time.Now(), Mark: i.cache.Mark(k)}
	if k == revision.Reads {
		e.Detail = []byte(`"test://a"`)
	}
	return e
}

// isFresh reports whether an entry may be given to clients of an instance.
func (i *instance) isFresh(e *cache.Entry) bool {
	return i.cache.Freshness(e, time.Now()) == cache.Fresh
}

// settles returns how long an instance waits for the others.
func (i *instance) settles() time.Duration {
	begun := time.Now()
	i.Settle(context.Background())
	return time.Since(begun)
}

// wantFresh fails unless that is so of entries of instances.
func wantFresh(t *testing.T, when string, fleet []*instance, entries []*cache.Entry, want bool) {
	t.Helper()
	for n, i := range fleet {
		if got := i.isFresh(entries[n]); got != want {
			t.Errorf("%s, instance %d's %s is fresh: %v", when, n, entries[n].Kind, got)
		}
	}
}

// of returns what each instance has fetched of a kind.
func of(fleet []*instance, k revision.Kind) (entries []*cache.Entry) {
	for _, i := range fleet {
		entries = append(entries, i.fetched(k))
	}
	return entries
}

// away is why a store is.
var errAway = errors.New("the cable is cut")
