package persist

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

var errNoRoom = errors.New("no room")

// failingAt has a store fail at those operations: at once, or when its time is up.
func failingAt(slow bool, operations ...string) func(context.Context, string, string) error {
	return func(ctx context.Context, operation, _ string) error {
		if !slices.Contains(operations, operation) {
			return nil
		}
		if slow {
			<-ctx.Done()
		}
		return errNoRoom
	}
}

// sleepyFor has a store take that long for whatever it saves.
func sleepyFor(d time.Duration) func(context.Context, string, string) error {
	return func(_ context.Context, operation, _ string) error {
		if operation == "save" {
			time.Sleep(d)
		}
		return nil
	}
}

// A list that was replaced does not come back after a restart, although the new
// one could not be saved.
func TestReplacedListDoesNotComeBack(t *testing.T) {
	for name, slow := range map[string]bool{"full": false, "slow": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTrial(t)
				r.start()
				r.fetched(entryOf(t, revision.Tools, "old", cache.Public))
				r.fetched(entryOf(t, revision.Prompts, "p", cache.Public))
				r.store.SetTrouble(failingAt(slow, "save"))
				r.fetched(entryOf(t, revision.Tools, "new", cache.Public))
				time.Sleep(saveTimeout)
				synctest.Wait()
				if e := r.restarted().cache.Pinned(revision.V20260728, revision.Tools); e != nil {
					t.Errorf("after a restart there are %v", e.Body.Names())
				}
				if r.restarted().cache.Pinned(revision.V20260728, revision.Prompts) == nil {
					t.Error("another list is gone")
				}
				r.store.SetTrouble(nil)
				time.Sleep(resave + saveTimeout) // it is tried again, though nothing happens
				synctest.Wait()
				if got := r.stored(toolsKey, revision.Tools); got != "new" {
					t.Errorf("stored is %q", got)
				}
			})
		})
	}
}

// What can neither be replaced nor deleted is deleted as soon as that works.
func TestReplacedListIsDeletedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		r.start()
		r.fetched(entryOf(t, revision.Tools, "old", cache.Public))
		r.store.SetTrouble(failingAt(false, "save", "delete"))
		r.fetched(entryOf(t, revision.Tools, "new", cache.Public))
		r.store.SetTrouble(failingAt(false, "save"))
		time.Sleep(resave)
		synctest.Wait()
		if value := r.store.Get(toolsKey); value != nil {
			t.Errorf("the store still has %s", value)
		}
		r.wantLog("failing", "saving snapshots failed", 1)
	})
}

// A copy of the very list is worth keeping, if only it is not known to be that
// young: one of this run, and one from before a restart.
func TestUnchangedListSurvivesAFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newTrial(t)
		first.start()
		first.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		first.stop()
		for name, r := range map[string]*trial{"this run": first, "restarted": first.restarted()} {
			r.start()
			r.store.SetTrouble(failingAt(false, "save"))
			time.Sleep(resave)
			r.store.Take()
			r.fetched(entryOf(t, revision.Tools, "a", cache.Public))
			r.stop()
			if got := r.stored(toolsKey, revision.Tools); got != "a" {
				t.Errorf("%s: stored is %q", name, got)
			}
			r.store.SetTrouble(nil)
		}
	})
}

// A list of max_list bytes comes back, one of a byte more does not, and one that
// is much larger is not even loaded.
func TestLoadingHasMaxList(t *testing.T) {
	data, err := snapshot.Encode(entryOf(t, revision.Tools, strings.Repeat("x", largestList/2), cache.Public), false, snapshot.State{}, snapshot.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	length := int64(len(entryOf(t, revision.Tools, strings.Repeat("x", largestList/2), cache.Public).Body.Bytes))
	for name, tt := range map[string]struct {
		limit        int64
		there, asked bool
	}{
		"as large as may be": {length, true, true},
		"a byte larger":      {length - 1, false, true},
		"much larger":        {length / 2, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t)
			r.Use(r.store, nil, tt.limit, r.logger)
			r.store.Set(toolsKey, data)
			loaded := false
			r.store.SetTrouble(func(_ context.Context, operation, key string) error {
				loaded = loaded || operation == "load" && key == toolsKey
				return nil
			})
			r.Load(t.Context())
			if there := r.cache.Pinned(revision.V20260728, revision.Tools) != nil; there != tt.there || loaded != tt.asked {
				t.Errorf("the list is there: %v, it was loaded: %v", there, loaded)
			}
			lines := 1
			if tt.there {
				lines = 0
			}
			r.wantLog(name, "stored snapshot ignored", lines)
		})
	}
}

// Instances that share a store share what they mean the same by.
func TestInstancesWithOneStore(t *testing.T) {
	named := func(name string) func() (string, error) { return func() (string, error) { return name, nil } }
	nameless := func() (string, error) { return "", errors.New("no data directory") }
	for name, tt := range map[string]struct {
		first, second func() (string, error)
		shared        bool
	}{
		"everybody's upstream": {nil, nil, true},
		"own, restarted":       {named("one"), named("one"), true},
		"own of each":          {named("one"), named("two"), false},
		"own, without a name":  {named("one"), nameless, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newTrialOf(t, storetest.NewTrial(), tt.first)
				first.start()
				first.fetched(entryOf(t, revision.Tools, "a", cache.Public))
				second := newTrialOf(t, first.store, tt.second)
				second.Load(t.Context())
				if got := second.cache.Pinned(revision.V20260728, revision.Tools) != nil; got != tt.shared {
					t.Errorf("the second has the list of the first: %v", got)
				}
				second.start()
				second.fetched(entryOf(t, revision.Tools, "b", cache.Public))
				second.stop()
				again := newTrialOf(t, first.store, tt.first)
				again.Load(t.Context())
				want := map[bool]string{true: "b", false: "a"}[tt.shared]
				if e := again.cache.Pinned(revision.V20260728, revision.Tools); e == nil || e.Body.Names()[0] != want {
					t.Errorf("the first has %+v, want %s", e, want)
				}
			})
		})
	}
}

// At the first start of all, Caddy may be writing the name of the instance when it is asked for: the
// lists are saved all the same, once there is one.
func TestNameOfAnInstanceThatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		name := func() (string, error) {
			if asked++; asked <= 2 {
				return "", errors.New("invalid UUID length: 0")
			}
			return "one", nil
		}
		first := newTrialOf(t, storetest.NewTrial(), name)
		first.Load(t.Context())
		first.start()
		first.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		time.Sleep(2 * resave)
		first.stop()
		again := newTrialOf(t, first.store, func() (string, error) { return "one", nil })
		again.Load(t.Context())
		if e := again.cache.Pinned(revision.V20260728, revision.Tools); e == nil || e.Body.Names()[0] != "a" {
			t.Errorf("after a restart there is %+v", e)
		}
	})
}

// What a running configuration uses stays, however long its upstream is away;
// what none reaches any more goes within days.
func TestUnusedSnapshotsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewTrial()
		gone := newTrialOf(t, store, func() (string, error) { return "gone", nil })
		gone.start()
		gone.fetched(entryOf(t, revision.Tools, "unreachable", cache.Public))
		gone.stop()
		before := store.Len()

		away := newTrialOf(t, store, nil)
		away.start()
		away.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		time.Sleep(unused - touch)
		synctest.Wait()
		if n := store.Len(); n != before+1 {
			t.Errorf("%d copies are left too early, want %d", n, before+1)
		}
		time.Sleep(touch + upkeep)
		synctest.Wait()
		if n := store.Len(); n != 1 || away.stored(toolsKey, revision.Tools) != "a" {
			t.Errorf("%d copies are left, want the one in use", n)
		}
		time.Sleep(3 * unused)
		synctest.Wait()
		if got := away.stored(toolsKey, revision.Tools); got != "a" {
			t.Errorf("of what is in use, %q is left", got)
		}
		// From before a restart, and never fetched since.
		away.stop()
		restarted := away.restarted()
		restarted.start()
		time.Sleep(3 * unused)
		synctest.Wait()
		if got := restarted.stored(toolsKey, revision.Tools); got != "a" {
			t.Errorf("of what is in use after a restart, %q is left", got)
		}
		restarted.stop()
		if saves := len(restarted.store.Take()); saves > 60 {
			t.Errorf("%d operations in seven weeks", saves)
		}
	})
}
