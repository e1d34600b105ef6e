package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// waitFor answers as the server does, once release is closed.
func waitFor(release <-chan struct{}, s *server) script {
	return func(w http.ResponseWriter, r *http.Request, c call) error {
		select {
		case <-release:
			return s.Answer(w, r, c)
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

func TestCallersShareOneFetch(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				f := w.start(r)
				before := s.Count(list)
				release := make(chan struct{})
				s.On(list, waitFor(release, s))
				w.outdate(revision.Tools)
				var callers sync.WaitGroup
				var served atomic.Int64
				for range 1000 {
					callers.Go(func() {
						if e, err := f.List(revision.Tools).Demand(nil).Wait(w.Context()); err == nil && e.Body.Items == 2 {
							served.Add(1)
						}
					})
				}
				w.after(time.Second)
				close(release)
				callers.Wait()
				if e, err := f.List(revision.Tools).Demand(nil).Wait(w.Context()); err != nil || e.Body.Items != 2 {
					t.Errorf("who came too late to join got %v, error %v", e, err)
				}
				if got := s.Count(list) - before; got != 1 || served.Load() != 1000 {
					t.Errorf("%d callers were served by %d fetches", served.Load(), got)
				}
			})
		})
	}
}

// Whoever comes after a change is not given what was asked for before it.
func TestCallerAfterAChangeJoinsNoOlderFetch(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		f := w.start(modern)
		w.after(w.policy.Refresh)
		release := make(chan struct{})
		s.On(list, func(rw http.ResponseWriter, _ *http.Request, c call) error {
			<-release
			return result(rw, c, `{"tools":[{"name":"old"}]}`)
		})
		w.outdate(revision.Tools)
		old := f.List(revision.Tools).Demand(nil)
		w.after(gather)
		s.On(list, gives(`{"tools":[{"name":"new"}]}`))
		w.outdate(revision.Tools)
		mark := w.cache.Mark(revision.Tools)
		young := f.List(revision.Tools).Demand(nil)
		if young == old || old.Since(mark) {
			t.Fatal("the caller from after the change joined the older fetch")
		}
		if again := f.List(revision.Tools).Demand(nil); again != young {
			t.Error("the next caller does not share the younger one")
		}
		if e, err := young.Wait(w.Context()); err != nil || e.Body.Names()[0] != "new" || !young.Since(mark) {
			t.Errorf("got %v, error %v, from after the change: %v", e, err, young.Since(mark))
		}
		close(release)
		if e, err := old.Wait(w.Context()); err != nil || e.Body.Names()[0] != "old" {
			t.Errorf("the caller from before got %v, error %v", e, err)
		}
		w.after(0)
		w.wantItems(modern, revision.Tools, "new")
	})
}

// An upstream tells each feed of a change, and some tell of several in a row:
// what comes at once is fetched at once, by callers' wish or not.
func TestNoticesAtOnceTakeOneFetch(t *testing.T) {
	for name, demanded := range map[string]bool{"by the feed": false, "for a caller": true} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern, legacy)
			run(t, s, func(w *world) {
				feeds := []*Feed{w.start(modern), w.start(legacy)}
				w.after(w.policy.Refresh)
				before := s.Count(list)
				w.outdate(revision.Tools)
				var fetches []*Fetch
				for _, f := range feeds {
					if demanded {
						fetches = append(fetches, f.List(revision.Tools).Demand(nil))
					}
				}
				w.after(gather / 2)
				s.Set(revision.Tools, "new")
				w.outdate(revision.Tools)
				mark := w.cache.Mark(revision.Tools)
				for i, f := range feeds {
					if demanded && f.List(revision.Tools).Demand(nil) != fetches[i] {
						t.Error("who came after the second notice does not share the fetch that has not left")
					}
				}
				w.after(gather - gather/2)
				for _, fetch := range fetches {
					if e, err := fetch.Wait(w.Context()); err != nil || e.Body.Names()[0] != "new" || !fetch.Since(mark) {
						t.Errorf("a caller got %v, error %v, from after both notices: %v", e, err, fetch.Since(mark))
					}
				}
				w.after(2 * w.policy.Refresh)
				if got := s.Count(list) - before; got != len(feeds) {
					t.Errorf("two notices at once took %d fetches of %d feeds", got, len(feeds))
				}
				w.outdate(revision.Tools)
				w.after(gather)
				w.outdate(revision.Tools)
				w.after(2 * w.policy.Refresh)
				if got := s.Count(list) - before; got != 3*len(feeds) {
					t.Errorf("two more, one after the other, took it to %d", got)
				}
			})
		})
	}
}

// A feed that ends does not wait for more notices.
func TestEndWhileNoticesGather(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		f := w.start(modern)
		w.after(w.policy.Refresh)
		before := s.Count(list)
		w.outdate(revision.Tools)
		fetch := f.List(revision.Tools).Demand(nil)
		begun := time.Now()
		w.group.Stop()
		if took := time.Since(begun); took != 0 || s.Count(list) != before {
			t.Errorf("the end took %v and %d fetches", took, s.Count(list)-before)
		}
		if _, err := fetch.Wait(w.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller got the error %v", err)
		}
	})
}

// An answer from before a change asks for no other fetch if there has been one
// since, under way or done.
func TestOlderFetchAsksForNoOther(t *testing.T) {
	for name, olderFirst := range map[string]bool{"older first": true, "younger first": false} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			run(t, s, func(w *world) {
				f := w.start(modern)
				w.after(w.policy.Refresh)
				older, younger := make(chan struct{}), make(chan struct{})
				for _, release := range []chan struct{}{older, younger} {
					s.On(list, waitFor(release, s))
					w.outdate(revision.Tools)
					f.List(revision.Tools).Demand(nil)
					w.after(gather)
				}
				first, second := younger, older
				if olderFirst {
					first, second = older, younger
				}
				close(first)
				w.after(time.Millisecond)
				close(second)
				w.after(10 * time.Second)
				w.wantCalls(list, 3)
				if e := w.cache.Pinned(modern, revision.Tools); w.cache.Freshness(e, time.Now()) != cache.Fresh {
					t.Error("the list is not fresh")
				}
				if n := w.logs.FilterMessage("list refreshed").FilterField(zap.Stringer("kind", revision.Tools)).Len(); n != 1 {
					t.Errorf("the log tells of %d changes of the tools", n)
				}
			})
		})
	}
}

func TestFetchesAreBounded(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		f := w.start(modern)
		before := s.Count(list)
		s.On(list, hang)
		for n := range maxFetches {
			w.outdate(revision.Tools)
			if f.List(revision.Tools).Demand(nil) == nil {
				t.Fatalf("fetch %d of %d was refused", n+1, maxFetches)
			}
			w.after(gather)
		}
		w.outdate(revision.Tools)
		if f.List(revision.Tools).Demand(nil) != nil {
			t.Error("one fetch more was started")
		}
		w.after(0)
		if got := s.Count(list) - before; got != maxFetches {
			t.Errorf("%d fetches are under way, want %d", got, maxFetches)
		}
		s.On(list, nil)
		w.after(client.RequestTimeout + 46*time.Second)
		w.wantState(f, Ready)
		if e := w.cache.Pinned(modern, revision.Tools); w.cache.Freshness(e, time.Now()) != cache.Fresh {
			t.Error("the list is not fresh again")
		}
	})
}

func TestWaitersAreBounded(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		f := w.start(modern)
		release := make(chan struct{})
		s.On(list, waitFor(release, s))
		w.outdate(revision.Tools)
		fetch := f.List(revision.Tools).Demand(nil)
		ctx, leave := context.WithCancel(w.Context())
		var callers sync.WaitGroup
		var served, left, refused atomic.Int64
		wait := func(ctx context.Context) {
			switch _, err := fetch.Wait(ctx); {
			case err == nil:
				served.Add(1)
			case errors.Is(err, context.Canceled):
				left.Add(1)
			case errors.Is(err, flight.ErrTooManyWaiters):
				refused.Add(1)
			}
		}
		for range flight.MaxWaiters - 1 {
			callers.Go(func() { wait(w.Context()) })
		}
		callers.Go(func() { wait(ctx) })
		w.after(0)
		if refused.Load() != 0 {
			t.Errorf("%d of %d callers were refused", refused.Load(), flight.MaxWaiters)
		}
		wait(w.Context()) // must return at once
		if refused.Load() != 1 {
			t.Error("one caller more was not refused")
		}
		leave()
		w.after(0)
		callers.Go(func() { wait(w.Context()) }) // in the place of the one that left
		w.after(0)
		close(release)
		callers.Wait()
		if served.Load() != flight.MaxWaiters || left.Load() != 1 || refused.Load() != 1 {
			t.Errorf("%d callers were served, %d left, %d were refused", served.Load(), left.Load(), refused.Load())
		}
	})
}

// Every caller waits no longer than it wants; the fetch is not hurt.
func TestStalledFetchHoldsNobody(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		release := make(chan struct{})
		s.On(list, waitFor(release, s))
		w.outdate(revision.Tools)
		fetch := f.List(revision.Tools).Demand(nil)
		for _, patience := range []time.Duration{0, time.Millisecond, time.Second} {
			ctx, cancel := context.WithTimeout(w.Context(), patience)
			begun := time.Now()
			if _, err := fetch.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != patience {
				t.Errorf("got error %v after %v, want %v", err, time.Since(begun), patience)
			}
			cancel()
		}
		if f.List(revision.Prompts).Struggling() || !f.List(revision.Tools).Struggling() {
			t.Error("not exactly the tools are struggling")
		}
		close(release)
		if _, err := fetch.Wait(w.Context()); err != nil {
			t.Errorf("got error %v", err)
		}
		gone, cancel := context.WithCancel(w.Context())
		cancel()
		w.after(0)
		for range 20 { // both are ready; either may be taken
			if e, err := fetch.Wait(gone); e == nil && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, error %v", e, err)
			}
		}
	})
}

// While a feed fails it is not asked at every miss.
func TestNoDemandWhileFailing(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		f := w.start(modern)
		s.On(list, status(429, "Retry-After", "60"))
		w.outdate(revision.Tools)
		if _, err := f.List(revision.Tools).Demand(nil).Wait(w.Context()); err == nil {
			t.Fatal("got a list")
		}
		w.after(time.Second)
		if f.List(revision.Tools).Demand(nil) != nil {
			t.Error("a failing feed is asked again before its time")
		}
		w.outdate(revision.Prompts)
		if f.List(revision.Prompts).Demand(nil) == nil {
			t.Error("another kind suffers")
		}
		w.after(0)
	})
	s = newServer(modern)
	s.OnAll(refuse)
	run(t, s, func(w *world) {
		if w.start(modern).List(revision.Tools).Demand(nil) != nil {
			t.Error("a feed that is not connected is asked")
		}
	})
}

// Clients with capabilities share the feed's snapshot if they are given the
// same, and have one of their own if not.
func TestVariants(t *testing.T) {
	s := newServer(modern)
	v := variant.New([32]byte{}).Learn(variant.Client{Capabilities: []byte(`{"elicitation":{}}`)})
	run(t, s, func(w *world) {
		f := w.start(modern)
		own := w.wantItems(modern, revision.Tools, "tools_a", "tools_b")
		if _, err := f.List(revision.Tools).Demand(v).Wait(w.Context()); err != nil {
			t.Fatal(err)
		}
		if !v.Seen(modern, revision.Tools).Agrees(own) {
			t.Error("the same list does not agree")
		}
		s.On(list, func(rw http.ResponseWriter, _ *http.Request, c call) error {
			if !strings.Contains(string(c.Params.Meta), "elicitation") {
				return result(rw, c, `{"tools":[{"name":"plain"}]}`)
			}
			return result(rw, c, `{"tools":[{"name":"more"}]}`)
		})
		w.outdate(revision.Tools)
		e, err := f.List(revision.Tools).Demand(v).Wait(w.Context())
		if err != nil || fmt.Sprint(e.Body.Names()) != "[more]" {
			t.Fatalf("got %v, error %v", e, err)
		}
		w.after(w.policy.Refresh)
		if pinned := w.wantItems(modern, revision.Tools, "plain"); v.Seen(modern, revision.Tools).Agrees(pinned) {
			t.Error("another list agrees")
		}
		q := cache.Question{Revision: modern, Kind: revision.Tools, Variant: v.Key, Partition: cache.Anonymous}
		if got := w.cache.Get(q); got == nil || fmt.Sprint(got.Body.Names()) != "[more]" {
			t.Errorf("kept for them is %v", got)
		}
	})
}
