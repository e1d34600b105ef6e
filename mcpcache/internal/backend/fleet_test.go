package backend

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// instance is one of several that share a store, in front of one server.
type instance struct {
	*Ref

	store *storetest.Shared
	lists atomic.Int64 // of tools that it has asked for
}

// newFleet starts instances of a server that announces changes, and returns them once each has
// the lists, which are fresh for ttl. They end with the test.
func newFleet(t *testing.T, server *clienttest.Server, n int, ttl time.Duration) []*instance {
	t.Helper()
	store, key := storetest.NewTrial(), secret.Ring{secret.New()}
	var fleet []*instance
	for range n {
		one := &instance{store: &storetest.Shared{Trial: store, Ahead: time.Hour}}
		one.Ref = &Ref{
			Settings: Defaults(), Logger: zap.NewNop(), Store: one.store,
			Secrets: func(context.Context) (secret.Ring, error) { return key, nil },
			Upstream: stand(func(w http.ResponseWriter, r *http.Request) error {
				if r.Header.Get("Mcp-Method") == "tools/list" {
					one.lists.Add(1)
				}
				return server.ServeHTTP(w, r, caddyhttp.HandlerFunc(nil))
			}),
		}
		one.Settings.Feed.TTL = ttl
		var err error
		if one.Backend, err = New("upstream", "http://upstream.test/mcp", one.Ref); err != nil {
			t.Fatal(err)
		}
		one.Attach()
		one.Run()
		time.Sleep(time.Second)
		fleet = append(fleet, one)
	}
	t.Cleanup(func() {
		for _, one := range fleet {
			one.Detach()
			one.await(t)
		}
		time.Sleep(time.Minute) // abandoned answers end in their time
	})
	synctest.Wait()
	return fleet
}

// tools returns the names of an instance's tools.
func (i *instance) tools() string {
	e := i.Cache.Pinned(revision.LatestModern, revision.Tools)
	if e == nil {
		return ""
	}
	names := ""
	for _, name := range e.Body.Names() {
		names += name + " "
	}
	return names
}

// wantTools fails unless each instance has the tool of that name alone.
func wantTools(t *testing.T, fleet []*instance, name string) {
	t.Helper()
	for n, one := range fleet {
		if got := one.tools(); got != name+" " {
			t.Errorf("instance %d has %q, want %q", n, got, name)
		}
	}
}

// A hundred times that lists are due, one instance asks, and all have what it was given.
func TestFleetAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.New(revision.LatestModern)
		fleet := newFleet(t, server, 3, feed.DefaultTTL)
		const rounds, method = 100, "tools/list"
		first := server.Count(method)
		if first != len(fleet) {
			t.Fatalf("at the start, %d lists were asked for", first)
		}
		for server.Count(method) < first+rounds {
			server.Set(revision.Tools, time.Now().Format("t150405"))
			asked := server.Count(method)
			for server.Count(method) == asked {
				time.Sleep(time.Second)
				server.Notify("notifications/message") // otherwise the stream ends, and each asks for what it may have missed
			}
			time.Sleep(time.Duration(0.15*float64(feed.DefaultTTL)) + time.Second) // others are due by then
			synctest.Wait()
			if n := server.Count(method) - asked; n != 1 {
				t.Fatalf("when it was due, the list was asked for %d times", n)
			}
			for n, one := range fleet {
				if got, want := one.tools(), fleet[0].tools(); got != want {
					t.Errorf("instance %d has %q, the first %q", n, got, want)
				}
			}
		}
		for n, one := range fleet {
			if one.lists.Load() == rounds+1 {
				t.Errorf("instance %d has asked each time", n)
			}
		}
	})
}

// The instance that asks dies, before there is an answer: another asks within four seconds.
func TestFleetReplacesItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.New(revision.LatestModern)
		fleet := newFleet(t, server, 3, 2*time.Second)
		server.On("tools/list", clienttest.Hang)
		before := make([]int64, len(fleet))
		for n, one := range fleet {
			before[n] = one.lists.Load()
		}
		var died time.Time
		for died.IsZero() {
			time.Sleep(100 * time.Millisecond)
			for n, one := range fleet {
				if one.lists.Load() > before[n] {
					one.store.SetAway(errors.New("dead"))
					died = time.Now()
				}
			}
		}
		server.On("tools/list", nil)
		asked := server.Count("tools/list")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if n := server.Count("tools/list") - asked; n != 1 {
			t.Errorf("within four seconds, the list was asked for %d times", n)
		}
	})
}

// A list that was asked for before a change was announced takes the place of nothing.
func TestFleetAndChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.New(revision.LatestModern)
		fleet := newFleet(t, server, 3, feed.DefaultTTL)
		for range 20 {
			time.Sleep(feed.DefaultTTL / 7)
			name := time.Now().Format("t150405")
			server.Set(revision.Tools, name)
			asked := server.Count("tools/list")
			server.Notify("notifications/tools/list_changed")
			time.Sleep(feed.DefaultRefresh + 100*time.Millisecond)
			synctest.Wait()
			if n := server.Count("tools/list") - asked; n != len(fleet) {
				t.Errorf("when all have heard of a change, the list was asked for %d times", n)
			}
			wantTools(t, fleet, name)
		}
	})
}

// What one instance hears of has outdated the lists of all others before its clients hear of it, and
// each has the new one soon.
func TestFleetHearsOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.New(revision.LatestModern)
		fleet := newFleet(t, server, 3, feed.DefaultTTL)
		for round := range 10 {
			name := time.Now().Format("t150405")
			server.Set(revision.Tools, name)
			teller := fleet[round%len(fleet)]
			teller.Cache.Bump(revision.SetOf(revision.Tools))
			teller.Fleet.Settle(t.Context())
			for n, one := range fleet {
				if one.Cache.Freshness(one.Cache.Pinned(revision.LatestModern, revision.Tools), time.Now()) != cache.Outdated {
					t.Errorf("once all have confirmed it, what instance %d has is not outdated", n)
				}
			}
			time.Sleep(feed.DefaultRefresh)
			synctest.Wait()
			wantTools(t, fleet, name)
		}
	})
}

// An instance whose way to the store is cut asks for lists by itself. Once it is back, it asks for what
// others may have been told meanwhile.
func TestFleetAsksApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.New(revision.LatestModern)
		fleet := newFleet(t, server, 2, feed.DefaultTTL)
		fleet[0].store.SetAway(errors.New("the cable is cut"))
		time.Sleep(feed.DefaultTTL / 2)
		before := [2]int64{fleet[0].lists.Load(), fleet[1].lists.Load()}
		time.Sleep(2 * feed.DefaultTTL)
		for n, one := range fleet {
			if asked := one.lists.Load() - before[n]; asked < 1 {
				t.Errorf("instance %d has asked %d times", n, asked)
			}
		}
		server.Set(revision.Tools, "changed")
		fleet[1].Cache.Bump(revision.SetOf(revision.Tools))
		time.Sleep(feed.DefaultRefresh)
		fleet[0].store.SetAway(nil)
		time.Sleep(2 * feed.DefaultRefresh)
		wantTools(t, fleet, "changed")
	})
}
