package persist

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// noSecrets is for who has none.
func noSecrets(context.Context) (secret.Ring, error) { return secret.Ring{secret.New()}, nil }

// asked is a list of one item of that name that was asked for just now.
func asked(t *testing.T, name string) *cache.Entry {
	e := entryOf(t, revision.Tools, name, cache.Public)
	e.Asked = time.Now()
	return e
}

// fleet is instances at work that share a store, each with a list of its own.
func fleet(t *testing.T, n int) (*storetest.Trial, []*member) {
	store, key := storetest.NewTrial(), secret.New()
	var members []*member
	for range n {
		m := join(t, store, -time.Hour, key)
		m.start()
		m.fetched(asked(t, "old"))
		members = append(members, m)
		time.Sleep(time.Second)
	}
	return store, members
}

// name is what an instance is called.
func (m *member) name() string { return fmt.Sprintf("instance-%p", m.Keeper) }

// own is the list that an instance has.
func (m *member) own() *cache.Entry { return m.cache.Pinned(revision.V20260728, revision.Tools) }

// The outcomes of a turn.
const (
	fetches = "fetches"
	waits   = "waits"
	takes   = "takes"
)

// leaseFailed is what is logged if nobody can have a lease.
const leaseFailed = "agreeing with other instances on who fetches failed: this one fetches for itself"

// turn asks whose turn it is, and fails unless that is what comes of it.
func (m *member) turn(when, want string) (e *cache.Entry, end func()) {
	m.t.Helper()
	synctest.Wait()
	e, end = m.Lease(m.t.Context(), m.name(), m.own())
	if end != nil {
		end = sync.OnceFunc(end)
		m.t.Cleanup(end)
	}
	got := fetches
	switch {
	case e != nil:
		got = takes
	case end == nil:
		got = waits
	}
	if got != want || e != nil && end != nil {
		m.t.Fatalf("%s, an instance %s, want one that %s", when, got, want)
	}
	return e, end
}

// settled takes the list that is newest, if another instance has that.
func (m *member) settled() {
	m.t.Helper()
	if e, end := m.Lease(m.t.Context(), m.name(), m.own()); e != nil {
		m.fetched(e)
	} else {
		end()
		synctest.Wait()
	}
}

// One instance fetches, and the others take what it was given, as it was given it.
func TestOneInstanceFetchesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, members := fleet(t, 3)
		for _, m := range members {
			m.settled()
		}
		_, end := members[1].turn("at first", fetches)
		members[0].turn("while another fetches", waits)
		members[1].turn("while it does itself", waits)
		time.Sleep(time.Minute) // slowly, but it lives
		members[2].turn("while another fetches slowly", waits)
		list := asked(t, "new")
		time.Sleep(time.Second)
		list.Fetched = time.Now()
		members[1].fetched(list)
		end()
		store.Take()
		time.Sleep(10 * time.Second)
		for _, m := range []*member{members[0], members[2]} {
			e, _ := m.turn("once it has", takes)
			if e.Body.Names()[0] != "new" || !e.Asked.Equal(list.Asked) || !e.Fetched.Equal(list.Fetched) || e.Lifetime != time.Minute {
				t.Errorf("taken is %+v", e)
			}
			m.fetched(e)
			m.want("having taken it")
			_, end := m.turn("having taken it", fetches)
			end()
		}
		_, end = members[1].turn("having fetched it", fetches)
		same := asked(t, "new")
		members[1].fetched(same)
		end()
		if e, _ := members[0].turn("once it has, and nothing has changed", takes); !e.Asked.Equal(same.Asked) {
			t.Errorf("taken is %+v", e)
		}
		members[0].wantLog("all is well", leaseFailed, 0)
	})
}

// What is in the store when the turn ends is what was fetched, whoever is about to save that.
func TestTurnEndsWhenTheListIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key := storetest.NewTrial(), secret.New()
		m, other := join(t, store, 0, key), join(t, store, 0, key)
		m.fetched(asked(t, "old"))
		other.fetched(asked(t, "old"))
		time.Sleep(time.Second)
		_, end := m.turn("at first", fetches)
		m.fetched(asked(t, "new"))
		end()
		e, _ := other.turn("after its end", takes)
		other.fetched(e)

		time.Sleep(time.Second)
		_, end = m.turn("once more", fetches)
		busy := make(chan struct{})
		m.Keeper.store.secrets = func(context.Context) (secret.Ring, error) {
			<-busy
			return secret.Ring{key}, nil
		}
		m.fetched(asked(t, "newer"))
		m.start() // it saves
		synctest.Wait()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			end()
		}()
		other.turn("while it is being saved", waits)
		close(busy)
		<-ended
		other.turn("after that", takes)
	})
}

// An instance that dies while it fetches is replaced; if it was paused, what it brings then
// changes nothing.
func TestHolderThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, members := fleet(t, 3)
		for _, m := range members {
			m.settled()
		}
		dead, other, third := members[0], members[1], members[2]
		_, end := dead.turn("at first", fetches)
		late := asked(t, "late")
		dead.shared.SetAway(errors.New("paused"))
		time.Sleep(leaseLife - time.Millisecond)
		other.turn("before its lease has ended", waits)
		time.Sleep(time.Millisecond + extendEach)
		_, endOther := other.turn("after that", fetches)
		dead.shared.SetAway(nil)
		time.Sleep(2 * extendEach)
		other.fetched(asked(t, "new"))
		dead.fetched(late)
		end()
		if e, _ := third.turn("with a newer list", takes); e.Body.Names()[0] != "new" {
			t.Errorf("after the paused one has gone on, there is %v", e.Body.Names())
		}
		third.fetched(asked(t, "even newer"))
		third.turn("while the second has the lease", waits)
		endOther()
		third.turn("after that", fetches)
	})
}

// What is of no use to an instance is fetched anew, and by one.
func TestUselessLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			spoil   func(store *storetest.Trial, other *member)
			ignored int
		}{
			"announced as changed": {func(_ *storetest.Trial, other *member) {
				other.announce()
				time.Sleep(2 * announceDelay)
			}, 0},
			"stale":   {func(*storetest.Trial, *member) { time.Sleep(time.Minute) }, 0},
			"deleted": {func(store *storetest.Trial, m *member) { _ = store.Delete(m.t.Context(), toolsKey) }, 0},
			"damaged": {func(store *storetest.Trial, _ *member) { store.Set(toolsKey, []byte("damaged")) }, 1},
		} {
			store, members := fleet(t, 2)
			m, other := members[0], members[1]
			c.spoil(store, other)
			_, end := m.turn(name, fetches)
			other.turn(name+", meanwhile", waits)
			m.fetched(asked(t, "new"))
			end()
			other.turn(name+", after that", takes)
			if f := m.Fleet(); f.Ignored != c.ignored || f.Trouble != nil {
				t.Errorf("%s: the store is %+v", name, f)
			}
			for range c.ignored { // it happens again
				time.Sleep(time.Minute)
				c.spoil(store, other)
				_, end := m.turn(name+", once more", fetches)
				m.fetched(asked(t, "newer"))
				end()
				m.wantLog(name, "stored snapshot ignored", 1)
			}
		}
	})
}

// By as much as the clocks may differ, a list is not known to be newer.
func TestListsThatMayNotBeNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			later time.Duration
			want  string
		}{
			"much later": {201 * time.Millisecond, takes}, "at about the same time": {200 * time.Millisecond, fetches}, "earlier": {-time.Second, fetches},
		} {
			store, key := storetest.NewTrial(), secret.New()
			one, other := join(t, store, time.Hour, key), join(t, store, time.Hour, key)
			one.shared.Within, other.shared.Within = 100*time.Millisecond, 100*time.Millisecond
			own := asked(t, "own")
			one.fetched(own)
			time.Sleep(time.Second)
			other.start()
			list := asked(t, "other")
			list.Asked = own.Asked.Add(c.later)
			other.fetched(list)
			one.turn(name, c.want)
		}
		store, key := storetest.NewTrial(), secret.New()
		m, other := join(t, store, time.Hour, key), join(t, store, time.Hour, key)
		m.start()
		m.fetched(asked(t, "own"))
		time.Sleep(time.Millisecond)
		other.start()
		other.fetched(asked(t, "other"))
		m.shared.Ahead += 2 * time.Millisecond
		time.Sleep(time.Second)
		_, end := m.turn("newer, but by another reckoning", fetches)
		end()
		other.stop()
		m.shared.Ahead -= 2 * time.Millisecond
		m.fetched(asked(t, "own"))
		m.shared.Ahead -= time.Millisecond
		time.Sleep(time.Second)
		m.turn("as its own is, by another reckoning", fetches)
		other.shared.Ahead = m.shared.Ahead - 30*time.Second // the store's clock was set back
		other.fetched(asked(t, "other"))
		other.turn("in the future", fetches)
	})
}

// An instance fetches by itself where nobody shares the list with it.
func TestTurnsOfOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewTrial()
		shared := &storetest.Shared{Trial: store}
		away := &storetest.Shared{Trial: store}
		away.SetAway(errors.New("away"))
		for name, m := range map[string]*trial{
			"its own store":   newTrialOf(t, store, nil),
			"a private list":  newTrialOf(t, store, nil),
			"no leases":       newTrialOf(t, store, nil),
			"a store that is": newTrialOf(t, store, nil),
		} {
			list := asked(t, "own")
			var used stores.Store = shared
			switch name {
			case "its own store":
				used = store
			case "a private list":
				list.Partition = cache.FeedOnly
			case "no leases":
				used = struct{ stores.Shared }{shared}
			case "a store that is":
				used = away
			}
			m.Use(used, noSecrets, largestList, m.logger)
			m.fetched(list)
			(&member{m, shared}).turn(name, fetches)
			m.wantLog(name, leaseFailed, 0)
			if n := store.Count(); n != 0 {
				t.Errorf("%s: the store was asked %d times", name, n)
			}
		}
	})
}

// A store that lets nobody have a lease is told of, once until it does.
func TestLeasesThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, members := fleet(t, 1)
		m := members[0]
		store.SetTrouble(failingAt(false, "lease"))
		for range 3 {
			m.turn("with no right to", fetches)
		}
		m.wantLog("with no right to", leaseFailed, 1)
		if f := m.Fleet(); f.Trouble == nil {
			t.Errorf("the store is %+v", f)
		}
		store.SetTrouble(nil)
		_, end := m.turn("with the right", fetches)
		end()
		if f := m.Fleet(); f.Trouble != nil {
			t.Errorf("with the right, the store is %+v", f)
		}
	})
}

// A change that an instance hears of is written down whoever has fetched the list: those who
// start then do not take the old one for what it was.
func TestChangesOfListsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, get := range map[string]func(m *member){
			"taken in turn": func(m *member) {
				e, _ := m.turn("in turn", takes)
				m.fetched(e)
			},
			"loaded at the start": func(m *member) { m.Load(m.t.Context()) },
		} {
			store, key := storetest.NewTrial(), secret.New()
			first, other := join(t, store, time.Hour, key), join(t, store, time.Hour, key)
			first.shared.Within, other.shared.Within = 50*time.Millisecond, 50*time.Millisecond
			if name == "taken in turn" {
				other.fetched(asked(t, "older"))
			}
			time.Sleep(time.Second)
			first.start()
			first.fetched(asked(t, "list"))
			get(other)
			other.start()
			other.announce()
			time.Sleep(2 * announceDelay)
			last := join(t, store, time.Hour, key)
			last.Load(t.Context())
			if e := last.own(); e == nil || e.Body.Names()[0] != "list" || !e.Mark.BeforeStart() {
				t.Errorf("%s: who starts then has %+v, want the list as one that is outdated", name, e)
			}
		}
	})
}
