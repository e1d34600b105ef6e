package telemetry

import (
	"context"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// subscriber is a handler of events that is a function.
type subscriber func(caddy.Event)

// Handle implements [caddyevents.Handler].
func (s subscriber) Handle(_ context.Context, e caddy.Event) error {
	s(e)
	return nil
}

// observed is telemetry whose events go to one subscriber.
type observed struct {
	*Telemetry

	feed.Observer // its own
	logs          *logged.ObservedLogs
	inForce       *atomic.Bool
}

// observe must be called in a bubble.
func observe(t *testing.T, subscribed func(caddy.Event)) *observed {
	t.Helper()
	app, ctx := eventsApp(t)
	for _, name := range []string{eventChanged, eventState} {
		if err := app.On(name, subscriber(subscribed)); err != nil {
			t.Fatal(err)
		}
	}
	core, logs := logged.New(zap.WarnLevel)
	var inForce atomic.Bool
	o := New(ctx, app, "observed", inForce.Load, zap.New(core))
	t.Cleanup(func() {
		o.Stop()
		o.events.ended.Wait()
	})
	return &observed{Telemetry: o, Observer: o.Feeds(), logs: logs, inForce: &inForce}
}

// start is what Caddy does when a configuration is in force.
func (o *observed) start() {
	o.inForce.Store(true)
	time.Sleep(longestLook)
	synctest.Wait()
}

func (o *observed) changed(items int) {
	o.Changed(feed.Change{Kind: revision.Tools, Revision: revision.V20251125, Items: items, Added: []string{"a"}})
}

func TestEventsAreDeliveredOnceInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []caddy.Event
		o := observe(t, func(e caddy.Event) { got = append(got, e) })
		o.Changed(feed.Change{
			Kind: revision.Resources, Revision: revision.V20260728, Items: 3,
			Added: []string{"file:///a"}, Removed: []string{"file:///b", "file:///c"}, Changed: []string{"file:///d"},
		})
		synctest.Wait()
		if len(got) != 0 {
			t.Fatalf("%d events were delivered before the configuration was in force", len(got))
		}
		o.start()
		o.StateChanged(feed.Hydrating, feed.Status{Revision: revision.V20251125, State: feed.Ready})
		synctest.Wait()
		want := []map[string]any{
			{
				"handler": "observed", "kind": "resources", "revision": "2026-07-28", "items": 3,
				"added": []string{"file:///a"}, "removed": []string{"file:///b", "file:///c"}, "changed": []string{"file:///d"},
			},
			{"handler": "observed", "era": "legacy", "revision": "2025-11-25", "from": "hydrating", "to": "ready"},
		}
		if len(got) != 2 || got[0].Name() != "mcp_cache.changed" || got[1].Name() != "mcp_cache.state" {
			t.Fatalf("events are %v", got)
		}
		for i, e := range got {
			if !reflect.DeepEqual(e.Data, want[i]) {
				t.Errorf("%s has %v, want %v", e.Name(), e.Data, want[i])
			}
		}
	})
}

// TestSlowSubscriberHoldsNobodyUp blocks a subscriber: the queue takes what it
// can, one more is dropped with a warning, and stop does not wait.
func TestSlowSubscriberHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		delivered := 0
		o := observe(t, func(caddy.Event) {
			delivered++
			<-release
		})
		o.start()
		o.changed(0)
		synctest.Wait() // it is being delivered
		for i := range maxEvents {
			o.changed(i)
		}
		if n := o.logs.Len(); n != 0 {
			t.Errorf("%d events were dropped though there was room", n)
		}
		o.changed(maxEvents)
		if n := o.logs.FilterMessageSnippet("event dropped").Len(); n != 1 {
			t.Errorf("%d drops were logged, want 1", n)
		}
		o.Stop()
		o.Stop()
		o.changed(0)
		if n := o.logs.Len(); n != 1 {
			t.Errorf("what has stopped logs: %v", o.logs.All())
		}
		close(release)
		o.events.ended.Wait()
		if delivered != 1 {
			t.Errorf("%d events were delivered, want the first only", delivered)
		}
	})
}

func TestPanickingSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delivered := 0
		o := observe(t, func(e caddy.Event) {
			delivered++
			if e.Data["items"] == 1 {
				panic("subscriber is broken")
			}
		})
		o.start()
		o.changed(1)
		o.changed(2)
		synctest.Wait()
		if delivered != 2 {
			t.Errorf("%d events were delivered, want 2", delivered)
		}
		if n := o.logs.FilterMessage("event subscriber panicked").Len(); n != 1 {
			t.Errorf("%d panics were logged", n)
		}
	})
}

// What an upstream calls its items is cut: Caddy logs events, at debug level.
func TestEventNames(t *testing.T) {
	for _, n := range []int{0, 1, maxEventNames, maxEventNames + 1} {
		names := make([]string, n)
		for i := range names {
			names[i] = strings.Repeat("x", maxEventName+i%2)
		}
		got := eventNames(names)
		if len(got) != min(n, maxEventNames) {
			t.Errorf("%d of %d names", len(got), n)
		}
		for i, name := range got {
			if len(name) != maxEventName || len(names[i]) != maxEventName+i%2 {
				t.Fatalf("name %d of %d bytes became one of %d", i, len(names[i]), len(name))
			}
		}
	}
	if got := eventNames([]string{strings.Repeat("x", maxEventName-1) + "é", "b"}); got[0] != strings.Repeat("x", maxEventName-1) || got[1] != "b" {
		t.Errorf("got %q", got)
	}
}

// TestEventsOfRejectedConfigurationEnd stops telemetry whose configuration
// never came into force.
func TestEventsOfRejectedConfigurationEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe(t, func(e caddy.Event) { t.Errorf("%s was delivered", e.Name()) })
		o.changed(1)
		o.Stop()
		o.events.ended.Wait()
		o.start() // too late
	})
}
