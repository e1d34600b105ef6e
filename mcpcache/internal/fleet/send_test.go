package fleet

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

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
				fleet[0].membership.expire() // too soon
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
			if fleet[0].Settle(t.Context()); fleet[1].cache.MayBeKnown(tools[1]) != want || fleet[1].cache.MayBeKnown(prompts[1]) {
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
		if fleet[0].cache.MayBeKnown(prompts[0]) {
			t.Error("who tells takes others for told")
		}
	})
}

// A member that missed an announcement takes its callers for told. After the store was emptied, a member cannot
// know whether it missed one.
func TestClientsWereToldOfWhatWasLost(t *testing.T) {
	for what, lost := range map[string]func(fleet []*instance, trial *storetest.Trial){
		"one that was lost before another": func(fleet []*instance, _ *storetest.Trial) {
			fleet[1].store.SetDelivery(func(stores.Announcement) int { fleet[1].store.SetDelivery(nil); return 0 })
			fleet[0].cache.BumpTold(revision.SetOf(revision.Tools))
			synctest.Wait()
			fleet[0].cache.Bump(revision.SetOf(revision.Prompts))
		},
		"one that was lost": func(fleet []*instance, _ *storetest.Trial) {
			fleet[1].store.SetDelivery(func(stores.Announcement) int { return 0 })
			fleet[0].cache.BumpTold(revision.SetOf(revision.Tools))
		},
		"one that was announced while it did not listen": func(fleet []*instance, _ *storetest.Trial) {
			fleet[1].store.SetAway(errAway)
			time.Sleep(beat + beat/2) // it has noticed, and is still a member
			fleet[0].cache.BumpTold(revision.SetOf(revision.Tools))
			synctest.Wait()
			fleet[1].store.SetAway(nil)
		},
		"none": func(_ []*instance, trial *storetest.Trial) { trial.Forget() },
	} {
		synctest.Test(t, func(t *testing.T) {
			fleet, trial := newFleet(t, 2)
			tools := of(fleet, revision.Tools)
			lost(fleet, trial)
			time.Sleep(2 * life)
			if told := fleet[1].cache.MayBeKnown(tools[1]); told != (what != "none") || fleet[1].isFresh(tools[1]) {
				t.Errorf("%s: that clients were told of it is taken for %v; it is fresh: %v", what, told, fleet[1].isFresh(tools[1]))
			}
		})
	}
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
	for _, n := range []news{
		{Change: cache.Change{Kinds: revision.SetOf(revision.Tools)}}, {Change: cache.Change{Kinds: everything}}, {Change: cache.Change{URIs: []string{"test://ä\n\"", ""}}},
		{Change: cache.Change{Kinds: revision.SetOf(revision.Prompts, revision.Reads), URIs: []string{"a"}, Told: true}},
		{Change: cache.Change{Kinds: revision.SetOf(revision.Tools), Told: true, Again: true}},
		{Change: cache.Change{Lists: []cache.Listed{
			{Revision: revision.LatestModern, Kind: revision.Tools, Items: sha256.Sum256(nil)}, {Revision: revision.LatestLegacy, Kind: revision.Prompts},
		}}},
		{marks: []string{"a", "b"}},
	} {
		if got := decode(encode(n)); fmt.Sprint(got) != fmt.Sprint(n) {
			t.Errorf("%v is told as %v", n, got)
		}
	}
	for _, text := range []string{"", "x", "[]", `{"kinds":["tools","widgets"]}`, `{"kinds":"tools"}`,
		`{"lists":[{"revision":"2026-07-28","kind":"tools","items":"AAAA"}]}`,
	} {
		if got := decode([]byte(text)); got.Kinds != everything {
			t.Errorf("%q is taken for %v", text, got)
		}
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
