package lists

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// miss makes every cached list of tools outdated and the next fetch hang: until
// released, all who list wait.
func miss(w *caddytest.World, told func(scripted.StreamInfo) bool, mark string) (release func()) {
	w.T.Helper()
	released := make(chan struct{})
	var once sync.Once
	release = func() { once.Do(func() { close(released) }) }
	w.T.Cleanup(release)
	w.Mark(scripted.ToolsList, mark)
	w.SetScript(scripted.ToolsList, scripted.Hang(released))
	w.Changed(told, scripted.ToolsList)
	return release
}

// TestThousandMissesOneFetch lets a thousand clients list at the moment when no
// cached list may be given out any more: the upstream is asked once. So it is
// when that happens again within the refresh interval.
func TestThousandMissesOneFetch(t *testing.T) {
	// The feed must not be the one that asks: what is counted are the
	// requests that clients cause.
	w := caddytest.NewWorld(t, "refresh 1h")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		w.SetScript(scripted.ToolsList, nil)
		c := w.Warm(revision)
		s := c.Notices()
		fixture.Await(t, "the stream", func() bool { return w.Streams(caddytest.OfEra(c)) == 1 })
		for _, wave := range []string{"first wave", "second wave"} {
			t.Run(wave, func(t *testing.T) {
				w := w.On(t)
				mark := wave + revision
				asked := func() int { // for the other era, its feed may ask
					return len(w.Host.Requests(func(r *fixture.Request) bool {
						return r.Method == scripted.ToolsList && r.Header.Get("Mcp-Protocol-Version") == revision
					}))
				}
				before := asked()
				release := miss(w, caddytest.OfEra(c), mark)
				s.Await("notifications/tools/list_changed")
				listAtOnce(t, c, 1000, mark, release)
				// In sessions one client has to show what the others get.
				want := map[bool]int{true: 1, false: 2}[c.Modern()]
				if n := asked() - before; n < 1 || n > want {
					t.Errorf("the upstream was asked %d times, want %d at most", n, want)
				}
			})
		}
	})
}

// listAtOnce sends lists of tools at the same time, releases the upstream when
// all are sent, and fails if one is answered without that mark.
func listAtOnce(t *testing.T, c *fixture.Raw, lists int, mark string, release func()) {
	t.Helper()
	var sent atomic.Int64
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { sent.Add(1) },
	})
	var wg sync.WaitGroup
	for range lists {
		wg.Go(func() {
			if a, err := c.TryList(ctx, scripted.ToolsList); err != nil || caddytest.MarkOf(a, scripted.ToolsList) != mark {
				t.Errorf("one of many got %s, %v", a, err)
			}
		})
	}
	fixture.Await(t, "all requests", func() bool { return sent.Load() == int64(lists) })
	release()
	wg.Wait()
}

// TestStalledLeaderHurtsNobody lets the client that fetches for others go away,
// and others with short deadlines: whoever stays is answered.
func TestStalledLeaderHurtsNobody(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 1h")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		w.SetScript(scripted.ToolsList, nil)
		c := w.Warm(revision)
		s := c.Notices()
		fixture.Await(t, "the stream", func() bool { return w.Streams(caddytest.OfEra(c)) == 1 })
		mark := "v2 " + revision
		before := w.Host.Count(scripted.ToolsList)
		release := miss(w, caddytest.OfEra(c), mark)
		s.Await("notifications/tools/list_changed")

		leaders, leave := context.WithCancel(t.Context())
		defer leave()
		left := make(chan error, 3)
		follow := make(chan *fixture.Answer, 8)
		for range cap(left) {
			go func() {
				_, err := c.TryList(leaders, scripted.ToolsList)
				left <- err
			}()
			fixture.Await(t, "the leader's fetch", func() bool { return w.Host.Count(scripted.ToolsList) > before })
		}
		for range cap(follow) {
			go func() {
				a, err := c.TryList(t.Context(), scripted.ToolsList)
				if err != nil {
					t.Errorf("following: %v", err)
				}
				follow <- a
			}()
		}
		leave()
		for range cap(left) {
			if err := <-left; err == nil {
				t.Error("a client that went away was answered")
			}
		}
		release()
		for range cap(follow) {
			if a := <-follow; a != nil && caddytest.MarkOf(a, scripted.ToolsList) != mark {
				t.Errorf("a follower got %s", a)
			}
		}
	})
}

// TestPoisonedFetch lets the fetch that many wait for fail in every way: all
// are answered, and the next list is good.
func TestPoisonedFetch(t *testing.T) {
	for name, poison := range map[string]scripted.Script{
		"half a body": scripted.HalfBody, "garbage": scripted.Garbage, "500": scripted.Status(500),
		"wrong id": scripted.WrongID, "panic": func(*scripted.Exchange) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewWorld(t, "refresh 50ms")
			c := w.Warm(scripted.Modern)
			s := c.Notices()
			fixture.Await(t, "the stream", func() bool { return w.Streams(caddytest.OfEra(c)) == 1 })
			w.Mark(scripted.ToolsList, "v2")
			reached, held := make(chan struct{}, 64), make(chan struct{})
			w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
				reached <- struct{}{}
				<-held
				poison(x)
			})
			w.Changed(caddytest.OfEra(c), scripted.ToolsList)
			s.Await("notifications/tools/list_changed")
			var wg sync.WaitGroup
			var old atomic.Int64
			for range 20 {
				wg.Go(func() {
					// A connection that is cut is an answer too: it is the upstream's.
					if a, err := c.TryList(t.Context(), scripted.ToolsList); err == nil && caddytest.MarkOf(a, scripted.ToolsList) == "v1" {
						old.Add(1)
					}
				})
			}
			<-reached
			close(held)
			wg.Wait()
			if n := old.Load(); n > 0 {
				t.Errorf("%d got the list from before the notice", n)
			}
			w.SetScript(scripted.ToolsList, nil)
			c.AwaitList(scripted.ToolsList, "a good list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v2") })
		})
	}
}
