package fleet

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// foreign returns a number of another counter, far beyond all that a store gives out in a test.
func foreign(n uint64) uint64 { return uint64(time.Now().AddDate(1, 0, 0).UnixMicro()) + n }

// What others write to the channel, with numbers that the store has not given out, costs lists once. Whoever
// announces a change after that waits until all have heard it, as before.
func TestForeignNumbers(t *testing.T) {
	for name, number := range map[string]uint64{"the greatest": math.MaxUint64, "of another counter": 0} {
		for what, confirmed := range map[string]bool{"announced": false, "confirmed": true} {
			t.Run(name+" is "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const slow = beat / 5
					fleet, trial := newFleet(t, 3)
					if number == 0 {
						number = foreign(0)
					}
					trial.Forge("place", stores.Announcement{Number: number, Confirmed: confirmed, Member: "x", Message: []byte("{}")})
					synctest.Wait()
					prompts := of(fleet, revision.Prompts)
					fleet[1].store.SetDelivery(func(stores.Announcement) int { time.Sleep(slow); return 1 })
					for range 3 {
						tools := of(fleet, revision.Tools)
						fleet[0].cache.Bump(revision.SetOf(revision.Tools))
						if took := fleet[0].settles(); took != slow {
							t.Errorf("it took %v", took)
						}
						wantFresh(t, "after that", fleet, tools, false)
						time.Sleep(beat) // what is confirmed comes slowly, too
					}
					time.Sleep(time.Minute)
					wantFresh(t, "a minute later", fleet, prompts, true)
					for _, i := range fleet {
						if !i.Together() {
							t.Error("one is no member any more")
						}
					}
				})
			})
		}
	}
}

// A number of another counter hides nothing: what is lost meanwhile is noticed.
func TestLostAfterForeignNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, trial := newFleet(t, 2)
		trial.Forge("place", stores.Announcement{Number: foreign(0), Member: "x", Message: []byte("{}")})
		synctest.Wait()
		prompts := of(fleet, revision.Prompts)
		fleet[1].store.SetDelivery(func(a stores.Announcement) int { fleet[1].store.SetDelivery(nil); return 0 })
		fleet[0].cache.Bump(revision.SetOf(revision.Prompts))
		if took := fleet[0].settles(); took == 0 || took > 2*beat {
			t.Errorf("it took %v", took)
		}
		wantFresh(t, "after that", fleet, prompts, false)
	})
}

// Another store may have given out smaller numbers: what was confirmed in the one before says nothing there.
func TestOtherStoreCountsOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = beat / 5
		older, trial := newFleet(t, 2)
		time.Sleep(time.Minute)
		newer, _ := newFleet(t, 2)
		newer[0].cache.Bump(revision.SetOf(revision.Tools))
		newer[0].Settle(t.Context())
		newer[0].store = &storetest.Shared{Trial: trial}
		newer[0].Use(newer[0].store, zap.New(newer[0].core))
		time.Sleep(life)
		older[1].store.SetDelivery(func(stores.Announcement) int { time.Sleep(slow); return 1 })
		tools := of(older, revision.Tools)
		newer[0].cache.Bump(revision.SetOf(revision.Tools))
		if took := newer[0].settles(); took != slow {
			t.Errorf("it took %v", took)
		}
		wantFresh(t, "after that", older, tools, false)
	})
}

// All may have confirmed what two announce at once before the store has answered the one who was first: then
// only the greater number is said.
func TestTwoAreConfirmedBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag = beat / 5
		fleet, trial := newFleet(t, 3)
		slow := &lagging{Shared: &storetest.Shared{Trial: trial}}
		fleet[0].Use(slow, zap.NewNop())
		synctest.Wait()
		slow.by.Store(int64(lag))
		prompts := of(fleet, revision.Prompts)
		fleet[2].store.SetDelivery(func(stores.Announcement) int { time.Sleep(lag / 4); return 1 }) // it hears both before it confirms
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		synctest.Wait()
		fleet[1].cache.Bump(revision.SetOf(revision.Tools))
		if took := fleet[0].settles(); took > 2*lag {
			t.Errorf("it took %v", took)
		}
		wantFresh(t, "after that", fleet, prompts, true)
	})
}
