package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// instance is one of several that share a store.
type instance struct {
	*Member

	store *storetest.Shared
	core  zapcore.Core
	log   *observer.ObservedLogs
	end   func()
}

// newInstance returns one that has not begun.
func newInstance(t *testing.T, trial *storetest.Trial) *instance {
	t.Helper()
	c, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	core, log := observer.New(zap.InfoLevel)
	i := &instance{store: &storetest.Shared{Trial: trial}, core: core, log: log}
	i.Member = New(func() (string, error) { return "place", nil }, c)
	i.Use(i.store, zap.New(core))
	t.Cleanup(c.Close)
	c.Watch(func(revision.KindSet) { i.Together() }) // as feeds do, which hold locks of their own
	return i
}

// run has it join, and waits until that has been tried.
func (i *instance) run(t *testing.T) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.Run(ctx)
	}()
	i.end = func() {
		cancel()
		<-ended
	}
	i.Begin(ctx)
	return i
}

// newFleet returns instances that have joined, a second after it was made.
func newFleet(t *testing.T, n int) (fleet []*instance, trial *storetest.Trial) {
	t.Helper()
	trial = storetest.NewTrial()
	for range n {
		fleet = append(fleet, newInstance(t, trial).run(t))
	}
	time.Sleep(life)
	synctest.Wait()
	t.Cleanup(func() {
		for _, i := range fleet {
			if i.end(); len(i.warnings()) > 0 {
				t.Errorf("the log has %v", i.warnings())
			}
		}
	})
	return fleet, trial
}

// warnings returns what the log has but for who is together.
func (i *instance) warnings() []observer.LoggedEntry {
	return i.log.FilterLevelExact(zap.WarnLevel).All()
}

// fetched returns a list, or the contents of a resource, that an instance has just fetched.
func (i *instance) fetched(k revision.Kind) *cache.Entry {
	e := &cache.Entry{Kind: k, Revision: revision.LatestModern, Lifetime: time.Hour, Fetched: time.Now(), Mark: i.cache.Mark(k)}
	if k == revision.Reads {
		e.Detail = []byte(`"test://a"`)
	}
	return e
}

// isFresh reports whether an entry may be given to clients of an instance.
func (i *instance) isFresh(e *cache.Entry) bool {
	return i.cache.Freshness(e, time.Now()) == cache.Fresh
}

// settles returns how long an instance waits for the others.
func (i *instance) settles() time.Duration {
	begun := time.Now()
	i.Settle(context.Background())
	return time.Since(begun)
}

// wantFresh fails unless that is so of entries of instances.
func wantFresh(t *testing.T, when string, fleet []*instance, entries []*cache.Entry, want bool) {
	t.Helper()
	for n, i := range fleet {
		if got := i.isFresh(entries[n]); got != want {
			t.Errorf("%s, instance %d's %s is fresh: %v", when, n, entries[n].Kind, got)
		}
	}
}

// of returns what each instance has fetched of a kind.
func of(fleet []*instance, k revision.Kind) (entries []*cache.Entry) {
	for _, i := range fleet {
		entries = append(entries, i.fetched(k))
	}
	return entries
}

// away is why a store is.
var errAway = errors.New("the cable is cut")

// Whoever waits for the others finds that they have outdated what has changed, and nothing else,
// however long they take to hear of it.
func TestOthersOutdate(t *testing.T) {
	for name, slow := range map[string]time.Duration{"at once": 0, "slowly": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, _ := newFleet(t, 3)
				tools, prompts := of(fleet, revision.Tools), of(fleet, revision.Prompts)
				wantFresh(t, "before", fleet, tools, true)
				fleet[1].store.SetDelivery(func(stores.Announcement) int { time.Sleep(slow); return 1 })
				if i := fleet[2]; i.cache.Freshness(tools[2], time.Now().Add(life)) != cache.Outdated {
					t.Error("an instance that has not been for a life does not know it at once")
				}
				fleet[0].Member.end() // too soon
				fleet[0].cache.Bump(revision.SetOf(revision.Tools))
				own := fleet[0].fetched(revision.Tools)
				if slow > 0 {
					synctest.Wait() // it is on its way
				}
				if took := fleet[0].settles(); took != slow {
					t.Errorf("it took %v", took)
				}
				wantFresh(t, "after that", fleet, tools, false)
				wantFresh(t, "after that", fleet, prompts, true)
				wantFresh(t, "what was fetched since, after that", fleet[:1], []*cache.Entry{own}, true)
				wantFresh(t, "after that", fleet, of(fleet, revision.Tools), true)
				if took := fleet[0].settles(); took != 0 {
					t.Errorf("with nothing to wait for, it took %v", took)
				}
				time.Sleep(time.Minute)
				wantFresh(t, "a minute later", fleet, prompts, true)
			})
		})
	}
}

// Who hears of a change knows whether clients were told of it: any caller may have been, of what was
// asked for before.
func TestClientsWereTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, _ := newFleet(t, 2)
		tools, prompts := of(fleet, revision.Tools), of(fleet, revision.Prompts)
		want := func(when string, want bool) {
			t.Helper()
			if fleet[0].Settle(t.Context()); fleet[1].cache.ToldElsewhere(tools[1]) != want || fleet[1].cache.ToldElsewhere(prompts[1]) {
				t.Errorf("%s, that is taken for told: %v", when, !want)
			}
		}
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		want("what a feed has heard", false)
		fleet[0].cache.BumpTold(revision.SetOf(revision.Tools))
		want("what a client is told", true)
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		want("after that", true)
		tools = of(fleet, revision.Tools)
		want("what was asked for since", false)
		if fleet[0].cache.ToldElsewhere(prompts[0]) {
			t.Error("who tells takes others for told")
		}
	})
}

// What is heard from others is not told them again.
func TestNothingEchoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, _ := newFleet(t, 3)
		var told atomic.Int64
		fleet[2].store.SetDelivery(func(a stores.Announcement) int {
			if !a.Confirmed {
				told.Add(1)
			}
			return 1
		})
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		time.Sleep(time.Minute)
		if told.Load() != 1 {
			t.Errorf("%d changes were told", told.Load())
		}
	})
}

// Changes that come while others are told of one are told together. An instance that hears of those of
// several slowly, but of each, misses none.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, _ := newFleet(t, 5)
		prompts := of(fleet, revision.Prompts)
		var told atomic.Int64
		fleet[0].store.SetDelivery(func(a stores.Announcement) int {
			if !a.Confirmed {
				told.Add(1)
				time.Sleep(100 * time.Millisecond)
			}
			return 1
		})
		for range 3000 {
			for _, i := range fleet[1:] {
				i.cache.Bump(revision.SetOf(revision.Tools))
			}
			time.Sleep(time.Millisecond)
		}
		if took := fleet[1].settles(); took > 900*time.Millisecond || told.Load() > 40 {
			t.Errorf("thousands of changes were told in %d messages, the last in %v", told.Load(), took)
		}
		wantFresh(t, "after changes of others", fleet, prompts, true)
	})
}

// An instance that does not hear of a change, or cannot say that it has, is waited for as long as it is
// a member. Then it has outdated everything by itself, and it is a member again as soon as it can be.
func TestDeafOnes(t *testing.T) {
	lost := func(i *instance, is bool) {
		i.store.SetDelivery(nil)
		if is {
			i.store.SetDelivery(func(stores.Announcement) int { return 0 })
		}
	}
	for name, trouble := range map[string]func(i *instance, is bool){
		"loses what it is told": lost,
		"cut off": func(i *instance, is bool) {
			i.store.SetAway(nil)
			if is {
				i.store.SetAway(errAway)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, _ := newFleet(t, 3)
				for range 5 {
					tools := of(fleet, revision.Tools)
					trouble(fleet[1], true)
					fleet[0].cache.Bump(revision.SetOf(revision.Tools))
					if took := fleet[0].settles(); took == 0 || took > life {
						t.Errorf("it took %v", took)
					}
					wantFresh(t, "after that", fleet, tools, false)
					trouble(fleet[1], false)
					time.Sleep(2 * life)
					if !fleet[1].Together() {
						t.Fatal("it is not a member again")
					}
					tools = of(fleet, revision.Tools)
					fleet[0].cache.Bump(revision.SetOf(revision.Tools))
					if took := fleet[0].settles(); took != 0 {
						t.Errorf("once it hears again, it took %v", took)
					}
					wantFresh(t, "once it hears again", fleet, tools, false)
				}
			})
		})
	}
}

// An announcement that is lost is noticed by the next, and if there is none, within two beats: it may
// have been of anything.
func TestLostAnnouncement(t *testing.T) {
	for name, another := range map[string]bool{"and another comes": true, "and nothing more": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, _ := newFleet(t, 2)
				prompts := of(fleet, revision.Prompts)
				var lost atomic.Bool
				fleet[1].store.SetDelivery(func(a stores.Announcement) int {
					if a.Confirmed || lost.Swap(true) {
						return 1
					}
					return 0
				})
				fleet[0].cache.Bump(revision.SetOf(revision.Prompts))
				synctest.Wait()
				if !fleet[1].isFresh(prompts[1]) {
					t.Fatal("it was not lost")
				}
				if another {
					fleet[1].cache.Bump(revision.SetOf(revision.Tools)) // its own
					synctest.Wait()
				} else if took := fleet[0].settles(); took > 2*beat {
					t.Errorf("it took %v", took)
				}
				if fleet[1].isFresh(prompts[1]) {
					t.Error("nobody has noticed")
				}
				if !fleet[1].Together() {
					t.Error("it was not a member meanwhile")
				}
			})
		})
	}
}

// What is heard twice, or after what came later, costs nothing but lists.
func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, _ := newFleet(t, 2)
		fleet[1].store.SetDelivery(func(stores.Announcement) int { return 3 })
		for range 10 {
			tools, prompts := of(fleet, revision.Tools), of(fleet, revision.Prompts)
			fleet[0].cache.Bump(revision.SetOf(revision.Tools))
			if took := fleet[0].settles(); took != 0 {
				t.Errorf("it took %v", took)
			}
			wantFresh(t, "after that", fleet, tools, false)
			wantFresh(t, "after that", fleet, prompts, true)
		}
	})
}

// A store that was emptied knows nobody. All join again, and nobody is told of a change before those
// who do not know it yet have outdated everything.
func TestForgetfulStore(t *testing.T) {
	for wait := time.Duration(0); wait <= life; wait += beat / 2 {
		synctest.Test(t, func(t *testing.T) {
			fleet, trial := newFleet(t, 3)
			tools, prompts := of(fleet, revision.Tools), of(fleet, revision.Prompts)
			trial.Forget()
			time.Sleep(wait)
			fleet[0].cache.Bump(revision.SetOf(revision.Tools))
			fleet[0].Settle(t.Context())
			wantFresh(t, "after that", fleet, tools, false)
			time.Sleep(life)
			wantFresh(t, "once all have joined", fleet, prompts, false)
			for _, i := range fleet {
				if !i.Together() {
					t.Error("one has not joined again")
				}
			}
		})
	}
}

// Without the store, each is by itself: nobody waits for long, and only once. What has changed
// meanwhile, the others are told as soon as it is there again.
func TestWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, _ := newFleet(t, 3)
		tools := of(fleet, revision.Tools)
		fleet[0].store.SetAway(errAway)
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		if took := fleet[0].settles(); took > longest {
			t.Errorf("it took %v", took)
		}
		if fleet[0].isFresh(tools[0]) || !fleet[1].isFresh(tools[1]) {
			t.Error("who is cut off has told the others, or not itself")
		}
		time.Sleep(longest)
		tools[0] = fleet[0].fetched(revision.Tools)
		for range 3 {
			if took := fleet[0].settles(); took != 0 {
				t.Errorf("once it is alone, it took %v", took)
			}
			if time.Sleep(time.Minute); !fleet[0].isFresh(tools[0]) {
				t.Error("who is alone does not go by what it fetches itself")
			}
			fleet[0].cache.Bump(revision.SetOf(revision.Tools))
			tools[0] = fleet[0].fetched(revision.Tools)
		}
		prompts := of(fleet, revision.Prompts)
		synctest.Wait()
		fleet[0].store.SetAway(nil)
		time.Sleep(life)
		wantFresh(t, "once it is back", fleet[1:], tools[1:], false)
		wantFresh(t, "once it is back", fleet[1:], prompts[1:], true)
		wantFresh(t, "once it is back", fleet[:1], prompts[:1], true) // nobody has announced anything
	})
}

// Who joins later, or again, may have missed anything that was announced before.
func TestJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, _ := newFleet(t, 2)
		fleet[1].store.SetAway(errAway)
		time.Sleep(longest)
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		fleet[0].Settle(t.Context())
		prompts := of(fleet, revision.Prompts)
		fleet[1].store.SetAway(nil)
		time.Sleep(life)
		if fleet[1].isFresh(prompts[1]) || !fleet[0].isFresh(prompts[0]) {
			t.Error("who was away has outdated nothing, or who was not has")
		}
		if len(fleet[1].warnings()) != 0 {
			t.Errorf("the log has %v", fleet[1].warnings())
		}
	})
}

// Before lists are fetched, joining outdates nothing: those from before a restart stay what they are.
func TestBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, trial := newFleet(t, 1)
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		fleet[0].Settle(t.Context())
		second := newInstance(t, trial)
		before := second.fetched(revision.Tools)
		second.run(t)
		defer second.end()
		if time.Since(before.Fetched) > 0 {
			t.Errorf("beginning took %v", time.Since(before.Fetched))
		}
		if !second.Together() || !second.isFresh(before) {
			t.Errorf("it is a member: %v; what is from before is fresh: %v", second.Together(), second.isFresh(before))
		}
		late := newInstance(t, trial)
		late.store.SetAway(errAway)
		late.run(t)
		defer late.end()
		before = late.fetched(revision.Tools)
		late.store.SetAway(nil)
		time.Sleep(life)
		if !late.Together() || late.isFresh(before) {
			t.Errorf("later, it is a member: %v; what is from before is fresh: %v", late.Together(), late.isFresh(before))
		}
	})
}

// A reload that keeps the store costs nothing, one that takes it away ends the membership.
func TestStoreIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, trial := newFleet(t, 2)
		tools := of(fleet, revision.Tools)
		var left atomic.Int64
		trial.SetTrouble(func(_ context.Context, operation, _ string) error {
			if operation == "leave" {
				left.Add(1)
			}
			return nil
		})
		for range 5 {
			fleet[1].store = &storetest.Shared{Trial: trial}
			fleet[1].Use(fleet[1].store, zap.NewNop())
			fleet[1].Use(fleet[1].store, zap.NewNop()) // as when the configuration before ends
			if !fleet[1].Together() {
				t.Error("while the store is replaced, it is no member")
			}
			synctest.Wait()
			wantFresh(t, "after a reload", fleet, tools, true)
		}
		if left.Load() != 0 {
			t.Error("it leaves at a reload")
		}
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		if took := fleet[0].settles(); took != 0 {
			t.Errorf("after reloads, it took %v", took)
		}
		wantFresh(t, "after reloads", fleet, tools, false)

		tools = of(fleet, revision.Tools)
		fleet[1].Use(storetest.NewTrial(), zap.NewNop())
		synctest.Wait()
		if fleet[1].Together() {
			t.Error("who has left is a member")
		}
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		if took := fleet[0].settles(); took != 0 {
			t.Errorf("with one that has left, it took %v", took)
		}
		time.Sleep(time.Minute)
		if fleet[1].Together() || !fleet[1].isFresh(tools[1]) {
			t.Errorf("who has left is a member: %v; what it has is fresh: %v", fleet[1].Together(), fleet[1].isFresh(tools[1]))
		}
		fleet[1].cache.Bump(revision.SetOf(revision.Tools))
		if took := fleet[1].settles(); took != 0 {
			t.Errorf("who has left waits %v", took)
		}
		fleet[0].end()
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		if took := fleet[0].settles(); took != 0 {
			t.Errorf("who has ended waits %v", took)
		}
	})
}

// A change of single resources outdates those, and of very many, all.
func TestResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, _ := newFleet(t, 2)
		reads, tools := of(fleet, revision.Reads), of(fleet, revision.Tools)
		fleet[0].cache.Update("test://b")
		fleet[0].Settle(t.Context())
		wantFresh(t, "after another's change", fleet, reads, true)
		fleet[0].cache.Update("test://a")
		fleet[0].Settle(t.Context())
		wantFresh(t, "after its change", fleet, reads, false)
		reads = of(fleet, revision.Reads)
		fleet[1].store.SetDelivery(func(stores.Announcement) int { time.Sleep(beat / 4); return 1 })
		for n := range 3 * maxURIs { // while others are told of the first
			fleet[0].cache.Update(fmt.Sprint("test://c", n))
		}
		fleet[0].Settle(t.Context())
		wantFresh(t, "after very many", fleet[1:], reads[1:], false)
		wantFresh(t, "after very many", fleet, tools, true)
	})
}

// What others say is understood, or else it may be anything.
func TestMessages(t *testing.T) {
	for _, c := range []cache.Change{
		{Kinds: revision.SetOf(revision.Tools)}, {Kinds: everything}, {URIs: []string{"test://ä\n\"", ""}},
		{Kinds: revision.SetOf(revision.Prompts, revision.Reads), URIs: []string{"a"}, Told: true},
	} {
		if got := decode(encode(c)); fmt.Sprint(got) != fmt.Sprint(c) {
			t.Errorf("%v is told as %v", c, got)
		}
	}
	for _, text := range []string{"", "x", "[]", `{"kinds":["tools","widgets"]}`, `{"kinds":"tools"}`} {
		if got := decode([]byte(text)); got.Kinds != everything {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// A store that fails, or panics, is one line of the log, and one does without it.
func TestTrouble(t *testing.T) {
	for name, trouble := range map[string]func() error{
		"fails":  func() error { return errors.New("no permission") },
		"panics": func() error { panic("no permission") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trial := storetest.NewTrial()
				trial.SetTrouble(func(context.Context, string, string) error { return trouble() })
				i := newInstance(t, trial).run(t)
				defer i.end()
				time.Sleep(time.Minute)
				lines := i.warnings()
				if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()), "no permission") {
					t.Errorf("the log has %v", lines)
				}
				i.cache.Bump(revision.SetOf(revision.Tools))
				if took := i.settles(); took != 0 || i.Together() {
					t.Errorf("it waits %v, and is a member: %v", took, i.Together())
				}
				if failure := i.Failure(); failure == nil || !strings.Contains(failure.Error(), "no permission") {
					t.Errorf("why it is alone is %v", failure)
				}
				trial.SetTrouble(nil)
				time.Sleep(lastPause + stable + beat)
				if !i.Together() || i.Failure() != nil {
					t.Errorf("once it works, it is a member: %v, and it says %v", i.Together(), i.Failure())
				}
				trial.SetTrouble(func(context.Context, string, string) error { return trouble() })
				time.Sleep(time.Minute)
				if lines := i.warnings(); len(lines) != 2 {
					t.Errorf("the log has %v", lines)
				}
			})
		})
	}
}

// A store that hangs holds nobody up for longer than it may, also one that does not keep to its time.
func TestHangingStore(t *testing.T) {
	for name, hang := range map[string]func(context.Context, <-chan struct{}){
		"for its time": func(ctx context.Context, _ <-chan struct{}) { <-ctx.Done() },
		"for longer":   func(_ context.Context, over <-chan struct{}) { <-over },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, trial := newFleet(t, 2)
				tools, over := of(fleet, revision.Tools), make(chan struct{})
				trial.SetTrouble(func(ctx context.Context, _, _ string) error { hang(ctx, over); return stores.ErrAway })
				fleet[0].cache.Bump(revision.SetOf(revision.Tools))
				if took := fleet[0].settles(); took > longest {
					t.Errorf("it took %v", took)
				}
				wantFresh(t, "after that", fleet, tools, false)
				trial.SetTrouble(nil)
				close(over)
				time.Sleep(2 * life)
				if !fleet[0].Together() || !fleet[1].Together() {
					t.Error("once it does not hang, they are not together")
				}
			})
		})
	}
}

// A store that answers too late for memberships to last has lists asked for again less and less often,
// says so once, and is joined as soon as it is quick again.
func TestLateStore(t *testing.T) {
	for _, late := range []time.Duration{life/2 + beat, life - 2*margin} {
		synctest.Test(t, func(t *testing.T) {
			i := newInstance(t, storetest.NewTrial())
			var outdated atomic.Int64
			i.cache.Watch(func(revision.KindSet) { outdated.Add(1) })
			slow := &lagging{Shared: i.store}
			slow.by.Store(int64(late))
			i.Use(slow, zap.New(i.core))
			i.run(t)
			defer i.end()
			time.Sleep(10 * time.Minute)
			if n := outdated.Load(); n > 60 {
				t.Errorf("in ten minutes, everything was outdated %d times", n)
			}
			if len(i.warnings()) != 1 || !errors.Is(i.Failure(), errLate) {
				t.Errorf("the log has %v, and why it is alone is %v", i.warnings(), i.Failure())
			}
			slow.by.Store(0)
			time.Sleep(lastPause + life + stable + beat)
			if before := outdated.Load(); !i.Together() || i.Failure() != nil {
				t.Errorf("once it is quick, it is a member: %v, and it says %v", i.Together(), i.Failure())
			} else if time.Sleep(time.Hour); outdated.Load() > before {
				t.Error("once it is quick, memberships do not last")
			}
		})
	}
}

// lagging is a store whose answers are late.
type lagging struct {
	*storetest.Shared

	by atomic.Int64
}

// Confirm implements [stores.Members].
func (l *lagging) Confirm(ctx context.Context, place, member string, heard uint64, life time.Duration) (stores.Standing, error) {
	defer time.Sleep(time.Duration(l.by.Load()))
	return l.Shared.Confirm(ctx, place, member, heard, life)
}

// Announce implements [stores.Members].
func (l *lagging) Announce(ctx context.Context, place, member string, message []byte, life time.Duration) (uint64, bool, error) {
	defer time.Sleep(time.Duration(l.by.Load()))
	return l.Shared.Announce(ctx, place, member, message, life)
}

// All may have confirmed what is announced before the store has answered.
func TestConfirmedBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag = beat / 5
		fleet, trial := newFleet(t, 2)
		slow := &lagging{Shared: &storetest.Shared{Trial: trial}}
		fleet[0].Use(slow, zap.NewNop())
		synctest.Wait()
		slow.by.Store(int64(lag))
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		if took := fleet[0].settles(); took != lag {
			t.Errorf("it took %v", took)
		}
	})
}
