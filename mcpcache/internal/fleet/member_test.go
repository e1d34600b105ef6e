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

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

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
			i.cache.Watch(func(cache.Change) { outdated.Add(1) })
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
