package mcpcache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
)

// failingAt has a store fail at those operations: at once, or when its time is up.
func failingAt(slow bool, operations ...string) func(context.Context, string, string) error {
	return func(ctx context.Context, operation, _ string) error {
		if !slices.Contains(operations, operation) {
			return nil
		}
		if slow {
			<-ctx.Done()
		}
		return errors.New("no room")
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
				r.fetched(warmEntry(t, revision.Tools, "old", cache.Public), false)
				r.fetched(warmEntry(t, revision.Prompts, "p", cache.Public), false)
				r.store.setTrouble(failingAt(slow, "save"))
				r.fetched(warmEntry(t, revision.Tools, "new", cache.Public), false)
				time.Sleep(saveTimeout)
				synctest.Wait()
				if e := r.restarted().cache.Pinned(revision.V20260728, revision.Tools); e != nil {
					t.Errorf("after a restart there are %v", e.Body.Names())
				}
				if r.restarted().cache.Pinned(revision.V20260728, revision.Prompts) == nil {
					t.Error("another list is gone")
				}
				r.store.setTrouble(nil)
				time.Sleep(resave + saveTimeout) // it is tried again, though nothing happens
				synctest.Wait()
				if got := r.stored(warmTools, revision.Tools); got != "new" {
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
		r.fetched(warmEntry(t, revision.Tools, "old", cache.Public), false)
		r.store.setTrouble(failingAt(false, "save", "delete"))
		r.fetched(warmEntry(t, revision.Tools, "new", cache.Public), false)
		r.store.setTrouble(failingAt(false, "save"))
		time.Sleep(resave)
		synctest.Wait()
		if value := r.store.get(warmTools); value != nil {
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
		first.fetched(warmEntry(t, revision.Tools, "a", cache.Public), false)
		first.stop()
		for name, r := range map[string]*trial{"this run": first, "restarted": first.restarted()} {
			r.start()
			r.store.setTrouble(failingAt(false, "save"))
			time.Sleep(resave)
			r.store.take()
			r.fetched(warmEntry(t, revision.Tools, "a", cache.Public), true)
			r.stop()
			if got := r.stored(warmTools, revision.Tools); got != "a" {
				t.Errorf("%s: stored is %q", name, got)
			}
			r.store.setTrouble(nil)
		}
	})
}

// A list of max_list bytes comes back, one of a byte more does not, and one that
// is much larger is not even loaded.
func TestLoadingHasMaxList(t *testing.T) {
	data, err := snapshot.Encode(warmEntry(t, revision.Tools, strings.Repeat("x", warmList/2), cache.Public), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	length := int64(len(warmEntry(t, revision.Tools, strings.Repeat("x", warmList/2), cache.Public).Body.Bytes))
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
			r.use(r.store, tt.limit, r.logger)
			r.store.values[warmTools] = data
			loaded := false
			r.store.setTrouble(func(_ context.Context, operation, key string) error {
				loaded = loaded || operation == "load" && key == warmTools
				return nil
			})
			r.load(t.Context())
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
				first := newTrialOf(t, newTrialStore(), tt.first)
				first.start()
				first.fetched(warmEntry(t, revision.Tools, "a", cache.Public), false)
				second := newTrialOf(t, first.store, tt.second)
				second.load(t.Context())
				if got := second.cache.Pinned(revision.V20260728, revision.Tools) != nil; got != tt.shared {
					t.Errorf("the second has the list of the first: %v", got)
				}
				second.start()
				second.fetched(warmEntry(t, revision.Tools, "b", cache.Public), false)
				second.stop()
				again := newTrialOf(t, first.store, tt.first)
				again.load(t.Context())
				want := map[bool]string{true: "b", false: "a"}[tt.shared]
				if e := again.cache.Pinned(revision.V20260728, revision.Tools); e == nil || e.Body.Names()[0] != want {
					t.Errorf("the first has %+v, want %s", e, want)
				}
			})
		})
	}
}

// What a running configuration uses stays, however long its upstream is away;
// what none reaches any more goes within days.
func TestUnusedSnapshotsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTrialStore()
		gone := newTrialOf(t, store, func() (string, error) { return "gone", nil })
		gone.start()
		gone.fetched(warmEntry(t, revision.Tools, "unreachable", cache.Public), false)
		gone.stop()
		before := store.size()

		away := newTrialOf(t, store, nil)
		away.start()
		away.fetched(warmEntry(t, revision.Tools, "a", cache.Public), false)
		time.Sleep(unused - touch)
		synctest.Wait()
		if n := store.size(); n != before+1 {
			t.Errorf("%d copies are left too early, want %d", n, before+1)
		}
		time.Sleep(touch + upkeep)
		synctest.Wait()
		if n := store.size(); n != 1 || away.stored(warmTools, revision.Tools) != "a" {
			t.Errorf("%d copies are left, want the one in use", n)
		}
		time.Sleep(3 * unused)
		synctest.Wait()
		if got := away.stored(warmTools, revision.Tools); got != "a" {
			t.Errorf("of what is in use, %q is left", got)
		}
		// From before a restart, and never fetched since.
		away.stop()
		restarted := away.restarted()
		restarted.start()
		time.Sleep(3 * unused)
		synctest.Wait()
		if got := restarted.stored(warmTools, revision.Tools); got != "a" {
			t.Errorf("of what is in use after a restart, %q is left", got)
		}
		restarted.stop()
		if saves := len(restarted.store.take()); saves > 60 {
			t.Errorf("%d operations in seven weeks", saves)
		}
	})
}

func TestOwnUpstream(t *testing.T) {
	dials := func(dials ...string) string {
		upstreams := make([]string, len(dials))
		for i, dial := range dials {
			upstreams[i] = fmt.Sprintf(`{"dial":%q}`, dial)
		}
		return `{"handler":"reverse_proxy","upstreams":[` + strings.Join(upstreams, ",") + `]}`
	}
	for config, want := range map[string]bool{
		dials("mcp.example.com:443"): false, dials("10.1.2.3:80", "[2001:db8::1]:80"): false,
		dials("127.0.0.1:3001"): true, dials("127.8.8.8:1"): true, dials("[::1]:3001"): true, dials("[::ffff:127.0.0.1]:1"): true,
		dials("localhost:3001"): true, dials("LocalHost.:3001"): true, dials("mcp.localhost:80"): true, dials(":3001"): true,
		dials("0.0.0.0:1"): true, dials("[fe80::1]:1"): true, dials("unix//run/mcp.sock"): true,
		dials("10.1.2.3:80", "127.0.0.1:80"): true, dials("{env.MCP}"): true, dials("{http.vars.mcp}:80"): true, dials(): true,
		`{"handler":"reverse_proxy","upstreams":[{"dial":"10.1.2.3:80"}],"headers":{"request":{"set":{"X-Site":["{env.SITE}"]}}}}`: true,
		`{"handler":"reverse_proxy","dynamic_upstreams":{"source":"srv"},"upstreams":[{"dial":"10.1.2.3:80"}]}`:                    true,
		`{"handler":"subroute","routes":[]}`: true, `[]`: true,
	} {
		if got := ownUpstream(json.RawMessage(config)); got != want {
			t.Errorf("%s: got %v", config, got)
		}
	}
}
