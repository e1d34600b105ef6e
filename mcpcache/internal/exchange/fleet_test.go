package exchange

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// TestNoticesWaitForOthers has another instance that hears late of what is announced: no byte of a
// notice reaches a client before, and what is no notice does not wait.
func TestNoticesWaitForOthers(t *testing.T) {
	const late = 100 * time.Millisecond
	for name, tt := range map[string]struct {
		text  string
		kind  revision.Kind
		waits time.Duration
	}{
		"a list":     {noticeOf("tools/list_changed"), revision.Tools, late},
		"a resource": {updateOf("test://a"), revision.Reads, late},
		"no notice":  {noticeOf("message"), revision.Tools, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFace(t, config{})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				defer running.Wait()
				defer cancel()
				trial := storetest.NewTrial()
				other, err := cache.New(1 << 20)
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				theirs, store := fleet.New(f.backend.Keeper.Place, other), &storetest.Shared{Trial: trial}
				theirs.Use(store, zap.NewNop())
				f.backend.Fleet.Use(&storetest.Shared{Trial: trial}, zap.NewNop())
				for _, m := range []*fleet.Member{theirs, f.backend.Fleet} {
					running.Go(func() { m.Run(ctx) })
					m.Begin(ctx)
				}
				time.Sleep(time.Second)
				store.SetDelivery(func(stores.Announcement) int { time.Sleep(late); return 1 })

				e := &cache.Entry{Kind: tt.kind, Lifetime: time.Hour, Fetched: time.Now(), Mark: other.Mark(tt.kind), Detail: []byte(`"test://a"`)}
				f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
					w.Header().Set("Content-Type", "text/event-stream")
					begun := time.Now()
					_, _ = io.WriteString(w, tt.text)
					if took := time.Since(begun); took != tt.waits {
						t.Errorf("writing takes %v, want %v", took, tt.waits)
					}
					if told := other.MayBeKnown(e); told != (tt.waits > 0) {
						t.Errorf("another instance takes callers for told: %v", told)
					}
					if fresh := other.Freshness(e, time.Now()) == cache.Fresh; fresh != (tt.waits == 0) {
						t.Errorf("once it is written, what another instance has is fresh: %v", fresh)
					}
					return nil
				})
				if w := f.serve(t, modernRequest("subscriptions/listen", "")); w.Body.String() != tt.text {
					t.Errorf("the client gets %q", w.Body)
				}
			})
		})
	}
}

// TestToldElsewhere has the server fail when another instance has announced a change: once clients were
// told of it there, no caller gets the list from before, as any may have been.
func TestToldElsewhere(t *testing.T) {
	const r = revision.V20251125
	for name, tt := range map[string]struct {
		told, anyway bool
		want         int
	}{
		"clients were told":                 {told: true, want: http.StatusServiceUnavailable},
		"clients were told, but it is kept": {told: true, anyway: true, want: http.StatusOK},
		"only a feed has heard of it":       {want: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0), StaleAfterNotice: tt.anyway})
			f.pinned(t, r, cache.Public, time.Hour, 0, "old")
			f.session(t, "s", r)
			f.upstreamIs(failsWith(http.StatusServiceUnavailable))
			f.backend.Cache.Receive(cache.Change{Kinds: revision.SetOf(revision.Tools), Told: tt.told})
			if w := f.serve(t, legacyRequest(r, "s", "tools/list")); w.Code != tt.want {
				t.Errorf("got %d, %s, want %d", w.Code, w.Body, tt.want)
			}
			f.backend.Cache.Receive(cache.Change{Kinds: revision.SetOf(revision.Prompts), Told: true})
			f.pinned(t, r, cache.Public, time.Minute, 2*time.Minute, "expired")
			if w := f.serve(t, legacyRequest(r, "s", "tools/list")); w.Code != http.StatusOK {
				t.Errorf("of what has only expired since, got %d, %s", w.Code, w.Body)
			}
		})
	}
}
