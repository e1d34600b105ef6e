package persist

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

func TestKeeperSavesWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.start()
		synctest.Wait()
		r.want("at first")
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.want("hydrated", "save "+toolsKey)
		for range 5 {
			time.Sleep(resave / 6)
			r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		}
		r.want("the same, within a minute")
		time.Sleep(resave/6 - 1)
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.want("the same, just before a minute is over")
		time.Sleep(time.Nanosecond)
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.want("the same, after a minute", "save "+toolsKey)
		if e, _, err := snapshot.Decode(r.store.Get(toolsKey), revision.V20260728, revision.Tools, time.Now(), snapshot.Terms{}); err != nil || e.Age(time.Now()) != 0 {
			t.Errorf("the stored list is of %v, %v", e, err)
		}
		r.fetched(entryOf(t, revision.Tools, "b", cache.Public))
		r.fetched(entryOf(t, revision.Prompts, "p", cache.Anonymous))
		r.want("changed at once", "save "+promptsKey, "save "+toolsKey)
		if a, b := r.stored(toolsKey, revision.Tools), r.stored(promptsKey, revision.Prompts); a != "b" || b != "p" {
			t.Errorf("stored are %q and %q", a, b)
		}
		r.stop()
		r.want("at the end")
	})
}

func TestKeeperSavesTheRestAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		// Not even begun when it ends.
		r.cache.Pin(entryOf(t, revision.Tools, "a", cache.Public))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Run(ctx)
		if got := r.stored(toolsKey, revision.Tools); got != "a" {
			t.Errorf("stored is %q", got)
		}
		r.store.Take()
		// What failed before is tried once more.
		r.start()
		r.store.SetTrouble(func(context.Context, string, string) error { return errors.New("no room") })
		r.fetched(entryOf(t, revision.Tools, "b", cache.Public))
		r.store.SetTrouble(nil)
		r.stop()
		r.want("failed and ended", "delete "+toolsKey, "save "+toolsKey, "save "+toolsKey)
		if got := r.stored(toolsKey, revision.Tools); got != "b" {
			t.Errorf("stored is %q", got)
		}
	})
}

// A round that was asked for while another took the same copies would only
// repeat what has failed.
func TestKeeperRoundTakesBackWhatAskedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.cache.Pin(entryOf(t, revision.Tools, "a", cache.Public))
		if _, due := r.take(); len(due) != 1 {
			t.Errorf("due are %v", due)
		}
		select {
		case <-r.wake:
			t.Error("another round is asked for")
		default:
		}
	})
}

func TestKeeperKeepsNothingPrivate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.Load(t.Context())
		r.start()
		for name, p := range map[string]cache.Partition{"guard's": cache.FeedOnly, "somebody's": cache.ContextOf([16]byte{1}, cache.Asked{})} {
			r.fetched(entryOf(t, revision.Tools, "private", p))
			r.want(name)
		}
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.want("public", "save "+toolsKey)
		r.fetched(entryOf(t, revision.Tools, "private", cache.FeedOnly))
		r.want("private by now", "delete "+toolsKey)
		r.fetched(entryOf(t, revision.Tools, "still private", cache.FeedOnly))
		r.want("still private")
		if value := r.store.Get(toolsKey); value != nil {
			t.Errorf("the store still has %s", value)
		}
	})
}

// A copy that could not be read may be there all the same.
func TestKeeperDeletesWhatItCouldNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.store.Set(toolsKey, []byte("something else"))
		r.Load(t.Context())
		r.start()
		r.fetched(entryOf(t, revision.Tools, "private", cache.FeedOnly))
		r.want("private", "delete "+toolsKey)
	})
}

func TestKeeperForgetsWhatIsNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.start()
		r.fetched(entryOf(t, revision.Prompts, "p", cache.Public))
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.want("hydrated", "save "+promptsKey, "save "+toolsKey)
		r.cache.Unpin(revision.V20260728, revision.Prompts)
		r.fetched(entryOf(t, revision.Tools, "b", cache.Public))
		r.want("without prompts", "delete "+promptsKey, "save "+toolsKey)
		r.fetched(entryOf(t, revision.Tools, "c", cache.Public))
		r.want("later", "save "+toolsKey)
	})
}

func TestKeeperLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		start := time.Now()
		for _, k := range []revision.Kind{revision.Tools, revision.Prompts, revision.Resources} {
			data, err := snapshot.Encode(entryOf(t, k, "stored", cache.Public), false, snapshot.State{}, snapshot.Terms{})
			if err != nil {
				t.Fatal(err)
			}
			r.store.Set(fmt.Sprintf("upstream/2026-07-28.%s.snapshot", k), data)
		}
		resources := "upstream/2026-07-28.resources.snapshot"
		r.store.Set(resources, r.store.Get(resources)[:60])
		time.Sleep(time.Hour)
		own := entryOf(t, revision.Prompts, "fetched", cache.Public)
		own.Fetched = start.Add(-time.Hour) // even if the clock was wrong
		r.cache.Pin(own)
		r.Load(t.Context())
		e := r.cache.Pinned(revision.V20260728, revision.Tools)
		if e == nil || e.Body.Names()[0] != "stored" || e.Age(time.Now()) != time.Hour {
			t.Errorf("tools are %+v", e)
		} else if got := r.cache.Freshness(e, time.Now()); got != cache.Expired {
			t.Errorf("tools have freshness %v", got)
		}
		if got := r.cache.Pinned(revision.V20260728, revision.Prompts); got != own {
			t.Errorf("the feed's own prompts gave way to %+v", got)
		}
		if got := r.cache.Pinned(revision.V20260728, revision.Resources); got != nil {
			t.Errorf("torn resources are restored as %+v", got)
		}
		ignored := r.log.FilterMessage("stored snapshot ignored")
		if ignored.Len() != 1 || ignored.All()[0].ContextMap()["key"] != resources || r.log.Len() != 1 {
			t.Errorf("logged %v", r.log.All())
		}
		// What the feed brings takes the place of what was stored.
		if now := entryOf(t, revision.Tools, "now", cache.Public); !r.cache.Pin(now) {
			t.Error("the stored list keeps the feed's away")
		}
	})
}

// A store that is used from now on gets what there is; one that was used before
// does not take part any more, not even with what it is still doing.
func TestKeeperWithAnotherStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.start()
		r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		r.want("hydrated", "save "+toolsKey)
		r.Use(r.store, nil, largestList, zap.NewNop())
		synctest.Wait()
		r.want("the same store again")

		first, second := r.store, storetest.NewTrial()
		release := make(chan struct{})
		first.SetTrouble(func(context.Context, string, string) error { <-release; return nil })
		r.fetched(entryOf(t, revision.Tools, "b", cache.Public)) // saving is under way
		r.want("the first store", "save "+toolsKey)
		r.store = second
		r.Use(second, nil, largestList, zap.NewNop())
		close(release)
		synctest.Wait()
		r.want("the second store", "save "+toolsKey)
		if got := r.stored(toolsKey, revision.Tools); got != "b" {
			t.Errorf("the second store has %q", got)
		}
		r.fetched(entryOf(t, revision.Tools, "c", cache.Public))
		r.want("the second store", "save "+toolsKey)
		if asked := first.Take(); len(asked) != 0 {
			t.Errorf("the first store is still asked to %q", asked)
		}
	})
}

// What one store said says nothing of another.
func TestKeeperWithAnotherStoreWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		release := make(chan struct{})
		r.store.SetTrouble(func(context.Context, string, string) error { <-release; return nil })
		var loading sync.WaitGroup
		loading.Go(func() { r.Load(t.Context()) })
		synctest.Wait()
		r.store = storetest.NewTrial()
		r.store.Set(toolsKey, []byte("from when the list was public"))
		r.Use(r.store, nil, largestList, zap.NewNop())
		close(release)
		loading.Wait() // the first store has nothing
		r.start()
		r.fetched(entryOf(t, revision.Tools, "private", cache.FeedOnly))
		r.want("the second store", "delete "+toolsKey)
	})
}

func TestKeeperWithAFailingStore(t *testing.T) {
	// Two changes make two rounds at most, each of which may take its time.
	const roundsEnd = 2*saveTimeout + time.Second
	for name, trouble := range map[string]func(context.Context, string, string) error{
		"fails":           func(context.Context, string, string) error { return errors.New("no room") },
		"panics":          func(context.Context, string, string) error { panic("no room") },
		"obeys its limit": func(ctx context.Context, _, _ string) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTrial(t)
				r.store.SetTrouble(trouble)
				r.Load(t.Context())
				r.wantLog("loaded", "loading stored snapshots failed", 1)
				r.start()
				for range 3 {
					r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
					r.fetched(entryOf(t, revision.Prompts, "p", cache.FeedOnly))
					time.Sleep(roundsEnd)
				}
				r.wantLog("thrice", "saving snapshots failed", 1)
				r.store.SetTrouble(nil)
				r.fetched(entryOf(t, revision.Tools, "b", cache.Public))
				if got := r.stored(toolsKey, revision.Tools); got != "b" {
					t.Errorf("stored is %q", got)
				}
				r.store.SetTrouble(trouble)
				r.fetched(entryOf(t, revision.Tools, "c", cache.Public))
				time.Sleep(roundsEnd)
				r.stop()
				r.wantLog("again", "saving snapshots failed", 2)
				if r.log.Len() != 3 {
					t.Errorf("logged %v", r.log.All())
				}
			})
		})
	}
}

// A store that never answers, against what it has promised.
func TestKeeperWithAHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		release := make(chan struct{})
		defer close(release)
		r.store.SetTrouble(func(context.Context, string, string) error { <-release; return nil })
		start := time.Now()
		r.Load(t.Context())
		if took := time.Since(start); took != loadTimeout {
			t.Errorf("loading took %v, want %v", took, loadTimeout)
		}
		if asked := r.store.Count(); asked != 1 {
			t.Errorf("the hanging store was asked %d times", asked)
		}
		r.start()
		start = time.Now()
		for range 100 {
			r.cache.Pin(entryOf(t, revision.Tools, "a", cache.Public))
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("telling the Keeper took %v", took)
		}
		time.Sleep(10 * saveTimeout)
		start = time.Now()
		r.stop()
		if took := time.Since(start); took > ShutdownTimeout {
			t.Errorf("the end took %v, more than %v", took, ShutdownTimeout)
		}
		r.wantLog("hung", "loading stored snapshots failed", 1)
		r.wantLog("hung", "saving snapshots failed", 1)
	})
}
