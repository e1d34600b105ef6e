package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// member is one of several instances that share a store.
type member struct {
	*trial

	shared *storetest.Shared
}

// join returns an instance with those secrets, whose clock the store's is ahead of by so much.
func join(t *testing.T, store *storetest.Trial, ahead time.Duration, ring ...secret.Secret) *member {
	t.Helper()
	m := &member{newTrialOf(t, store, nil), &storetest.Shared{Trial: store, Ahead: ahead}}
	m.Use(m.shared, func(context.Context) (secret.Ring, error) { return ring, nil }, largestList, m.logger)
	return m
}

// An instance that starts has the lists of the others, with their age by the store's clock.
func TestInstancesShareListsWithTheirAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key := storetest.NewTrial(), secret.New()
		first := join(t, store, -7*time.Hour, key) // the store's clock is behind all others
		first.start()
		time.Sleep(time.Minute)
		e := entryOf(t, revision.Tools, "shared", cache.Public)
		e.Fetched, e.Lifetime = time.Now().Add(-40*time.Second), time.Hour
		first.fetched(e)

		time.Sleep(20 * time.Second)
		if data := store.Get(toolsKey); !bytes.Contains(data, []byte(`"fetched":"1999-12-31T17:00:20Z"`)) {
			t.Errorf("stored is not when it was fetched by the store's clock: %.300s", data)
		}
		second := join(t, store, -7*time.Hour, key)
		second.Load(t.Context())
		got := second.cache.Pinned(revision.V20260728, revision.Tools)
		if got == nil || got.Body.Names()[0] != "shared" || got.Age(time.Now()) != time.Minute {
			t.Fatalf("the second instance has %+v, want the list of the first, one minute old", got)
		}
		if f := second.cache.Freshness(got, time.Now()); f == cache.Fresh {
			t.Error("it is fresh, though nobody here has heard of what changed since")
		}
		if f := second.Fleet(); f == nil || f.Ignored != 0 || f.Failure != nil {
			t.Errorf("the store is %+v", f)
		}
	})
}

// Whoever can write to a shared store can neither make a list, nor put one elsewhere.
func TestForeignSnapshotsAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, other := secret.New(), secret.New()
		for name, forge := range map[string]func(store *storetest.Trial){
			"sealed with another secret": func(store *storetest.Trial) {
				m := join(t, store, 0, other)
				m.start()
				m.fetched(entryOf(t, revision.Tools, "forged", cache.Public))
				m.stop()
			},
			"not sealed": func(store *storetest.Trial) {
				m := newTrialOf(t, store, nil)
				m.start()
				m.fetched(entryOf(t, revision.Tools, "forged", cache.Public))
				m.stop()
			},
			"of another server": func(store *storetest.Trial) {
				m := join(t, store, 0, key)
				m.Keeper.place = placeOf("elsewhere", nil)
				m.start()
				m.fetched(entryOf(t, revision.Tools, "forged", cache.Public))
				m.stop()
				store.Set(toolsKey, store.Get("elsewhere/2026-07-28.tools.snapshot"))
			},
			"cut off": func(store *storetest.Trial) {
				m := join(t, store, 0, key)
				m.start()
				m.fetched(entryOf(t, revision.Tools, "forged", cache.Public))
				m.stop()
				data := store.Get(toolsKey)
				store.Set(toolsKey, data[:len(data)-3])
			},
			"of another program": func(store *storetest.Trial) { store.Set(toolsKey, []byte("1")) },
			"of another type": func(store *storetest.Trial) {
				store.Set(toolsKey, nil)
				store.SetTrouble(func(_ context.Context, operation, at string) error {
					if at == toolsKey && operation == "size" {
						return fmt.Errorf("looking: %w", stores.ErrForeign)
					}
					return nil
				})
			},
		} {
			store := storetest.NewTrial()
			forge(store)
			if store.Get(toolsKey) == nil && name != "of another type" {
				t.Fatalf("%s: nothing is stored", name)
			}
			m := join(t, store, 0, key)
			m.Load(t.Context())
			if e := m.cache.Pinned(revision.V20260728, revision.Tools); e != nil {
				t.Errorf("%s: the list %v was taken", name, e.Body.Names())
			}
			if got := m.Fleet().Ignored; got != 1 {
				t.Errorf("%s: %d snapshots were ignored, want 1", name, got)
			}
			m.wantLog(name, "stored snapshot ignored", 1)

			// The next fetch takes its place.
			m.start()
			m.fetched(entryOf(t, revision.Tools, "good", cache.Public))
			m.stop()
			again := join(t, store, 0, other, key)
			store.SetTrouble(nil)
			again.Load(t.Context())
			if e := again.cache.Pinned(revision.V20260728, revision.Tools); e == nil || e.Body.Names()[0] != "good" {
				t.Errorf("%s: then an instance that knows both secrets has %+v", name, e)
			}
		}
	})
}

// Whom the server has let in is known to the instance alone that has seen it.
func TestAdmissionsAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key := storetest.NewTrial(), secret.New()
		first := join(t, store, 0, key)
		first.start()
		first.fetched(entryOf(t, revision.Tools, "shared", cache.Anonymous))
		first.Admit(revision.V20260728, time.Now().Add(time.Hour))
		first.Renew(revision.V20260728, revision.Tools)
		synctest.Wait()
		if data := store.Get(toolsKey); data == nil || bytes.Contains(data, []byte("admitted")) {
			t.Errorf("stored is %.200s", data)
		}
		second := join(t, store, 0, key)
		second.Load(t.Context())
		if second.cache.Pinned(revision.V20260728, revision.Tools) == nil {
			t.Error("the second instance has no list")
		}
		if until := second.AdmittedUntil(revision.V20260728); !until.IsZero() {
			t.Errorf("the second instance admits callers until %v", until)
		}
	})
}

// While the store is away nothing is logged here, for its state tells of that; what was not
// saved is once it is back.
func TestSharedStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key := storetest.NewTrial(), secret.New()
		m := join(t, store, 0, key)
		reason := errors.New("connection refused")
		m.shared.SetAway(reason)
		m.Load(t.Context())
		m.start()
		m.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		time.Sleep(time.Second)
		if f := m.Fleet(); !errors.Is(f.Failure, reason) || m.log.Len() != 0 {
			t.Errorf("the store is %+v; logged is %v", f, m.log.All())
		}
		m.shared.SetAway(nil)
		time.Sleep(resave)
		synctest.Wait()
		if store.Get(toolsKey) == nil {
			t.Error("nothing was saved after the store was back")
		}
	})
}

// Once the store is there, the keeper loads the lists that others have saved. A list that the feed has fetched
// before that stays.
func TestSharedStoreIsThereLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key := storetest.NewTrial(), secret.New()
		first := join(t, store, 0, key)
		first.start()
		first.fetched(entryOf(t, revision.Tools, "shared", cache.Public))
		first.fetched(entryOf(t, revision.Prompts, "shared", cache.Public))
		first.stop()

		second := join(t, store, 0, key)
		second.shared.SetAway(errors.New("no such host"))
		second.Load(t.Context())
		second.start()
		time.Sleep(10 * time.Second)
		second.fetched(entryOf(t, revision.Prompts, "own", cache.Public))
		second.shared.SetAway(nil)
		time.Sleep(reload)
		synctest.Wait()
		for kind, want := range map[revision.Kind]string{revision.Tools: "shared", revision.Prompts: "own"} {
			if e := second.cache.Pinned(revision.V20260728, kind); e == nil || e.Body.Names()[0] != want {
				t.Errorf("of %s it has %+v, want %s", kind, e, want)
			}
		}
		time.Sleep(resave)
		synctest.Wait()
		store.Take()
		time.Sleep(10 * reload)
		second.want("when all is loaded")
		if second.log.Len() != 0 {
			t.Errorf("logged is %v", second.log.All())
		}
	})
}

// That what is stored cannot be read at the start is said.
func TestSharedStoreCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewTrial()
		m := join(t, store, 0, secret.New())
		store.SetTrouble(failingAt(false, "size"))
		m.Load(t.Context())
		if f := m.Fleet(); !errors.Is(f.Trouble, errNoRoom) {
			t.Errorf("the store is %+v", f)
		}
		m.wantLog("at the start", "loading stored snapshots failed", 1)
	})
}

// What a store refuses to keep is said until it keeps it again.
func TestSharedStoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewTrial()
		m := join(t, store, 0, secret.New())
		store.SetTrouble(failingAt(false, "save"))
		m.start()
		m.fetched(entryOf(t, revision.Tools, "a", cache.Public))
		if f := m.Fleet(); !errors.Is(f.Trouble, errNoRoom) || f.Failure != nil {
			t.Errorf("the store is %+v", f)
		}
		m.wantLog("refused", "saving snapshots failed", 1)
		store.SetTrouble(nil)
		time.Sleep(resave)
		synctest.Wait()
		if f := m.Fleet(); f.Trouble != nil {
			t.Errorf("then the store is %+v", f)
		}
	})
}
