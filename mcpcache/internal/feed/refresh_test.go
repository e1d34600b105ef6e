package feed

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A list is fetched again before its time is over, so that it is always fresh.
func TestRefreshBeforeExpiry(t *testing.T) {
	for name, tt := range map[string]struct {
		hints    string
		lifetime time.Duration
		next     time.Duration // at the latest
	}{
		"no ttlMs":        {``, 5 * time.Minute, 5 * time.Minute},
		"ttlMs":           {`"ttlMs":60000`, time.Minute, time.Minute},
		"short ttlMs":     {`"ttlMs":10`, 10 * time.Millisecond, time.Second},
		"ttlMs above max": {`"ttlMs":99999999999`, 24 * time.Hour, 24 * time.Hour},
		"ttlMs 0":         {`"ttlMs":0`, 0, 5 * time.Minute},
		"ttlMs negative":  {`"ttlMs":-1`, 0, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			s.Quiet, s.Hints = true, tt.hints
			run(t, s, func(w *world) {
				f := w.start(modern)
				e := w.wantItems(modern, revision.Tools, "tools_a", "tools_b")
				if e.Lifetime != tt.lifetime {
					t.Errorf("lifetime is %v, want %v", e.Lifetime, tt.lifetime)
				}
				fresh := w.cache.Freshness(e, time.Now())
				if (fresh == cache.Fresh) != (tt.lifetime > 0) {
					t.Errorf("freshness is %d", fresh)
				}
				if next := time.Until(f.Status().Next); next <= 0 || next > tt.next {
					t.Errorf("the next refresh is due in %v, want at most %v", next, tt.next)
				}
				w.after(tt.next)
				if got := s.Count(list); got != 2 {
					t.Errorf("the list was fetched %d times, want 2", got)
				}
				w.wantStates(modern, Hydrating, Ready)
			})
		})
	}
}

func TestRefreshTimesDiffer(t *testing.T) {
	s := newServer(modern)
	s.Quiet = true
	run(t, s, func(w *world) {
		w.start(modern)
		w.after(2 * time.Hour)
		wantDifferent(t, s.Times(list))
	})
}

// wantDifferent checks that the times between attempts are not all the same.
func wantDifferent(t *testing.T, times []time.Time) {
	t.Helper()
	waits := make(map[time.Duration]bool)
	for i := range len(times) - 1 {
		waits[times[i+1].Sub(times[i])] = true
	}
	if len(times) < 10 || len(waits) < len(times)/2 {
		t.Errorf("%d attempts with %d different waits between them", len(times), len(waits))
	}
}

// A feed tries for ever, less and less often but at least twice a minute, and
// says so once.
func TestBackoff(t *testing.T) {
	for era, r := range both {
		for name, tt := range map[string]struct {
			method string
			before bool // the feed has connected before it fails
			state  State
		}{
			"connecting": {map[string]string{"legacy": "initialize", "modern": "server/discover"}[era], false, Down},
			"fetching":   {list, true, Degraded},
		} {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				if !tt.before {
					s.OnAll(refuse)
				}
				run(t, s, func(w *world) {
					f := w.start(r)
					if tt.before {
						s.On(list, refuse)
						w.after(w.policy.TTL)
					}
					begun := len(s.Times(tt.method))
					w.after(6 * time.Hour)
					w.wantState(f, tt.state)
					if got := len(w.states(r)); got > 3 {
						t.Errorf("the log says %v", w.states(r))
					}
					times := s.Times(tt.method)
					wantDifferent(t, times[begun:])
					for i := begun; i < len(times)-1; i++ {
						if wait := times[i+1].Sub(times[i]); wait < 125*time.Millisecond || wait > 46*time.Second {
							t.Fatalf("wait %d is %v", i, wait)
						}
					}
					if last := time.Since(times[len(times)-1]); last > 46*time.Second {
						t.Errorf("the last attempt was %v ago", last)
					}
					s.OnAll(nil)
					w.after(46 * time.Second)
					w.wantState(f, Ready)
					w.wantItems(r, revision.Tools, "tools_a", "tools_b")
				})
			})
		}
	}
}

// The first attempts come soon after one another: an upstream that starts
// after Caddy is not kept waiting.
func TestRecoversSoon(t *testing.T) {
	s := newServer(modern)
	s.OnAll(refuse)
	run(t, s, func(w *world) {
		f := w.start(modern)
		w.after(time.Second)
		s.OnAll(nil)
		// Four attempts may have failed; the next is 2 seconds later, give or
		// take a half.
		w.after(3 * time.Second)
		w.wantState(f, Ready)
	})
}

// An upstream that asks to be left alone is, whatever happens meanwhile.
func TestRetryAfter(t *testing.T) {
	for era, r := range both {
		for name, method := range map[string]string{
			"connecting": map[string]string{"legacy": "initialize", "modern": "server/discover"}[era],
			"fetching":   list,
		} {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				s.On(method, status(http.StatusTooManyRequests, "Retry-After", "120"))
				run(t, s, func(w *world) {
					f := w.start(r)
					for range 119 {
						s.Notify("notifications/tools/list_changed")
						f.Poke()
						w.after(time.Second)
					}
					w.wantCalls(method, 1)
					s.On(method, nil)
					w.after(2 * time.Second)
					w.wantState(f, Ready)
				})
			})
		}
	}
}

// A list that is empty all of a sudden is asked for again after a second, five and
// fifteen, and is what it was until then, whatever clients do meanwhile; after a
// notice it is asked for once more.
func TestEmptyAllOfASudden(t *testing.T) {
	for name, tt := range map[string]struct {
		notice   bool
		fetches  []time.Duration // after the first one that brought nothing, in seconds
		there    time.Duration   // when it is there again, if ever, in seconds
		believed bool
	}{
		"for good":                {fetches: []time.Duration{1, 5, 15}, believed: true},
		"there at the last":       {fetches: []time.Duration{1, 5, 15}, there: 14},
		"there again":             {fetches: []time.Duration{1, 5}, there: 4},
		"there at once":           {fetches: []time.Duration{1}, there: 0},
		"announced":               {notice: true, fetches: []time.Duration{1}, believed: true},
		"announced, for a moment": {notice: true, fetches: []time.Duration{1}, there: 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			run(t, s, func(w *world) {
				f := w.start(modern)
				w.after(w.policy.Refresh)
				before := s.Count(list)
				s.Set(revision.Tools)
				if tt.notice {
					s.Notify("notifications/tools/list_changed")
					w.after(gather)
				} else if _, err := f.List(revision.Tools).Refresh(w.Context()); !errors.Is(err, errEmpty) {
					t.Errorf("the first empty list gave %v", err)
				}
				first := time.Now()
				var fetches []time.Duration
				for second := range time.Duration(20) {
					if second == tt.there && !tt.believed {
						s.Set(revision.Tools, "tools_b")
					}
					for n := s.Count(list) - before - len(fetches); n > 1; n-- {
						fetches = append(fetches, time.Since(first)/time.Second)
					}
					if over := len(fetches) == len(tt.fetches); !over {
						w.wantItems(modern, revision.Tools, "tools_a", "tools_b")
						w.wantState(f, Degraded)
						f.Poke() // clients are answered
					}
					w.after(time.Second)
				}
				w.wantState(f, Ready)
				if !slices.Equal(fetches, tt.fetches) {
					t.Errorf("it was fetched again after %d seconds, want %d", fetches, tt.fetches)
				}
				if tt.believed {
					w.wantItems(modern, revision.Tools)
				} else {
					w.wantItems(modern, revision.Tools, "tools_b")
				}
			})
		})
	}
}

// A failure between them makes two empty lists none that agree.
func TestEmptyAndFailing(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		f := w.start(modern)
		w.after(w.policy.Refresh)
		s.Set(revision.Tools)
		if _, err := f.List(revision.Tools).Refresh(w.Context()); !errors.Is(err, errEmpty) {
			t.Errorf("the first empty list gave %v", err)
		}
		s.On(list, status(http.StatusServiceUnavailable))
		w.after(20 * time.Second)
		s.On(list, nil)
		for range 14 {
			if _, err := f.List(revision.Tools).Refresh(w.Context()); !errors.Is(err, errEmpty) {
				t.Errorf("an empty list after failures gave %v", err)
			}
			w.wantItems(modern, revision.Tools, "tools_a", "tools_b")
			w.after(time.Second)
		}
		w.after(2 * time.Second)
		w.wantItems(modern, revision.Tools)
	})
}

// When the operator changes how long lists are fresh, those that are there are
// fetched again: their lifetime is by what counted before.
func TestChangedTimes(t *testing.T) {
	for name, r := range both {
		t.Run(name, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				w.start(r)
				w.after(w.policy.Refresh)
				fetched := s.Count(list)
				lives := func(want time.Duration, fetches int) {
					t.Helper()
					w.after(w.policy.Refresh + gather)
					fetched += fetches
					w.wantCalls(list, fetched)
					if e := w.wantItems(r, revision.Tools, "tools_a", "tools_b"); e.Lifetime != want {
						t.Errorf("it lives for %v, want %v", e.Lifetime, want)
					}
				}
				w.set(func(p *Policy) { p.TTL = time.Hour })
				lives(time.Hour, 1)
				w.set(func(p *Policy) { p.MaxPages++ })
				lives(time.Hour, 0)
				w.set(func(p *Policy) { p.ByKind[revision.Tools].TTL = time.Minute })
				lives(time.Minute, 1)
				w.set(func(p *Policy) { p.ByKind[revision.Prompts].MinTTL = time.Hour })
				lives(time.Minute, 0)

				s.On(list, func(rw http.ResponseWriter, _ *http.Request, c call) error {
					s.On(list, nil)
					p := w.policy
					p.ByKind[revision.Tools].TTL = 2 * time.Minute
					w.group.Set(&p, w.logger) // while it is being fetched
					return result(rw, c, `{"tools":[{"name":"tools_a"},{"name":"tools_b"}]}`)
				})
				w.outdate(revision.Tools)
				lives(2*time.Minute, 2)
				lives(2*time.Minute, 0)
			})
		})
	}
}

func TestPartitionOfSnapshots(t *testing.T) {
	for name, tt := range map[string]struct {
		hints   string
		public  bool
		guarded bool
		apart   bool
		want    cache.Partition
	}{
		"unset":                  {``, false, false, false, cache.Anonymous},
		"unset, operator agrees": {``, true, false, false, cache.Public},
		"public":                 {`"cacheScope":"public"`, false, true, false, cache.Public},
		"private":                {`"cacheScope":"private"`, true, false, false, cache.Anonymous},
		"guarded, unset":         {``, false, true, false, cache.FeedOnly},
		"guarded, private":       {`"cacheScope":"private"`, true, true, false, cache.FeedOnly},
		"of an unknown scope":    {`"cacheScope":"team"`, true, false, false, cache.Anonymous},

		"apart, unset":                   {``, false, false, true, cache.FeedOnly},
		"apart, public":                  {`"cacheScope":"public"`, false, false, true, cache.FeedOnly},
		"apart, private, operator":       {`"cacheScope":"private"`, true, false, true, cache.FeedOnly},
		"apart, unset, operator agrees":  {``, true, false, true, cache.Public},
		"apart, public, operator agrees": {`"cacheScope":"public"`, true, false, true, cache.Public},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			s.Hints = tt.hints
			run(t, s, func(w *world) {
				w.set(func(p *Policy) {
					p.PublicByDefault, p.FeedOnly = tt.public, tt.apart
					if tt.guarded {
						p.Guard = new(clienttest.Guard)
					}
				})
				w.start(modern)
				if got := w.wantItems(modern, revision.Tools, "tools_a", "tools_b").Partition; got != tt.want {
					t.Errorf("got %+v, want %+v", got, tt.want)
				}
			})
		})
	}
}

// An answer that was asked for before a change is never fresh.
func TestChangeDuringAFetch(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		f := w.start(modern)
		w.after(w.policy.Refresh)
		release := make(chan struct{})
		s.On(list, func(rw http.ResponseWriter, r *http.Request, c call) error {
			<-release
			return result(rw, c, `{"tools":[{"name":"old"}]}`)
		})
		go func() { _, _ = f.List(revision.Tools).Refresh(w.Context()) }()
		w.after(0)
		s.Notify("notifications/tools/list_changed")
		w.after(0)
		s.On(list, gives(`{"tools":[{"name":"new"}]}`))
		close(release)
		w.after(0)
		if e := w.wantItems(modern, revision.Tools, "old"); w.cache.Freshness(e, time.Now()) != cache.Outdated {
			t.Error("the answer from before the change is fresh")
		}
		w.after(w.policy.Refresh)
		if e := w.wantItems(modern, revision.Tools, "new"); w.cache.Freshness(e, time.Now()) != cache.Fresh {
			t.Error("the answer from after the change is not fresh")
		}
	})
}

// A kind struggles until a new session has brought it: a caller who asked the upstream
// meanwhile would wait for what may still be lost.
func TestStrugglesUntilTheSessionDelivers(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		w.after(w.policy.Refresh)
		sessions := s.Count("initialize")
		asked := false
		s.On(listening[legacy], func(rw http.ResponseWriter, req *http.Request, c call) error {
			if s.Count("initialize") > sessions {
				asked = true
				if !f.List(revision.Tools).Struggling() {
					t.Error("it does not struggle before it asks in its session")
				}
			}
			return s.Answer(rw, req, c)
		})
		s.Forget()
		s.Cut()
		w.after(time.Minute)
		if !asked || f.List(revision.Tools).Struggling() {
			t.Errorf("it has a new session: %v; it struggles when it is well: %v", asked, f.List(revision.Tools).Struggling())
		}
	})
}
