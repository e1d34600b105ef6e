package backend

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache/cachetest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// stand stands for the upstream's handler.
type stand func(http.ResponseWriter, *http.Request) error

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (s stand) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return s(w, r)
}

// newRef returns a user of a backend of its own, which ends with the test.
// Its server is down.
func newRef(tb testing.TB) *Ref {
	tb.Helper()
	t := &Ref{
		Upstream: stand(func(http.ResponseWriter, *http.Request) error {
			return caddyhttp.Error(http.StatusBadGateway, errors.New("down"))
		}),
		Settings: Defaults(), Store: storetest.NewTrial(), Logger: zap.NewNop(),
	}
	var err error
	if t.Backend, err = New("upstream", "http://localhost/mcp", t); err != nil {
		tb.Fatal(err)
	}
	return t
}

// await ends a backend and waits for it.
func (b *Backend) await(tb testing.TB) {
	tb.Helper()
	if err := b.Destruct(); err != nil {
		tb.Error(err)
	}
	<-b.Ended()
}

// The feeds start, and what is shared ends, whatever the store does.
func TestFeedsDoNotWaitForAStore(t *testing.T) {
	for name, trouble := range map[string]func(<-chan struct{}) error{
		"hangs":  func(release <-chan struct{}) error { <-release; return nil },
		"panics": func(<-chan struct{}) error { panic("no room") },
		"fails":  func(<-chan struct{}) error { return errors.New("no room") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				store := storetest.NewTrial()
				store.SetTrouble(func(context.Context, string, string) error { return trouble(release) })
				s := newRef(t)
				s.Store = store
				s.Attach()
				s.Run()
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if s.Feeds.Of(revision.LatestModern) == nil || s.Feeds.Of(revision.LatestLegacy) == nil {
					t.Error("the feeds have not started")
				}
				start := time.Now()
				s.Detach()
				s.await(t)
				if took := time.Since(start); took > persist.ShutdownTimeout {
					t.Errorf("the end took %v, more than %v", took, persist.ShutdownTimeout)
				}
			})
		})
	}
}

// Two handlers share a cache: that one of them wants nothing compressed is its
// own business, whichever comes last.
func TestNeighbourWithoutCompression(t *testing.T) {
	e := cachetest.Tools(t, 50)
	for name, wanted := range map[string][]bool{
		"wanted last": {false, true}, "wanted first": {true, false}, "wanted by nobody": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRef(t).Backend
			defer b.await(t)
			for _, precompress := range wanted {
				s := Defaults()
				s.Precompress = precompress
				ref := &Ref{Backend: b, Settings: s, Store: storetest.NewTrial(), Logger: zap.NewNop()}
				ref.Attach()
				defer ref.Detach()
			}
			b.Cache.Pin(e)
			if got, want := len(b.Cache.Wanted()) == 1, name != "wanted by nobody"; got != want {
				t.Errorf("the list is to be compressed: %t, want %t", got, want)
			}
		})
	}
}

// The hashes are keyed: what one process remembers says nothing to another.
func TestVariantsAreKeyed(t *testing.T) {
	one, two := newRef(t), newRef(t)
	defer one.await(t)
	defer two.await(t)
	if a, b := one.UnknownVariant("session", "s"), two.UnknownVariant("session", "s"); a == b {
		t.Error("two upstreams give a session the same hash")
	}
}
