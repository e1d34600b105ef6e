package fleet

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// dropping is a store of which some answers to announcements are lost on their way.
type dropping struct {
	*storetest.Shared

	answers atomic.Int64
}

// Announce implements [stores.Members].
func (d *dropping) Announce(ctx context.Context, place, member string, message []byte, life time.Duration) (uint64, bool, error) {
	number, confirmed, err := d.Shared.Announce(ctx, place, member, message, life)
	if d.answers.Add(-1) >= 0 {
		return 0, false, errAway
	}
	return number, confirmed, err
}

// An announcement that fails is made again at once: whoever waits for the others goes on once they
// have outdated what has changed, however the announcement has failed.
func TestAnnouncementFails(t *testing.T) {
	for name, fail := range map[string]func(fleet []*instance, trial *storetest.Trial){
		"once": func(_ []*instance, trial *storetest.Trial) {
			var failed atomic.Bool
			trial.SetTrouble(func(_ context.Context, operation, _ string) error {
				if operation == "announce" && !failed.Swap(true) {
					return errors.New("LOADING")
				}
				return nil
			})
		},
		"for a while": func(fleet []*instance, _ *storetest.Trial) {
			fleet[0].store.SetAway(errAway)
			time.AfterFunc(life*3/2, func() { fleet[0].store.SetAway(nil) })
		},
		"with its answer": func(fleet []*instance, trial *storetest.Trial) {
			d := &dropping{Shared: &storetest.Shared{Trial: trial}}
			d.answers.Store(2)
			fleet[0].Use(d, zap.New(fleet[0].core))
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, trial := newFleet(t, 3)
				time.Sleep(beat / 2)
				tools, prompts := of(fleet, revision.Tools), of(fleet, revision.Prompts)
				fail(fleet, trial)
				fleet[0].cache.Bump(revision.SetOf(revision.Tools))
				if took := fleet[0].settles(); took > longest {
					t.Errorf("it took %v", took)
				}
				wantFresh(t, "after that", fleet, tools, false)
				wantFresh(t, "after that", fleet[1:], prompts[1:], true)
				trial.SetTrouble(nil)
				time.Sleep(2 * life)
			})
		})
	}
}

// A store that takes no announcement, and whatever else it is asked, holds up nobody for longer than two
// seconds.
func TestNoAnnouncementIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, trial := newFleet(t, 2)
		trial.SetTrouble(func(_ context.Context, operation, _ string) error {
			if operation == "announce" {
				return errors.New("no permission")
			}
			return nil
		})
		tools := of(fleet, revision.Tools)
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		if took := fleet[0].settles(); took > longest {
			t.Errorf("it took %v", took)
		}
		trial.SetTrouble(nil)
		time.Sleep(2 * life)
		wantFresh(t, "once it is taken", fleet, tools, false)
	})
}

// Others who hear again of a change, of which clients are told only now, keep what they have fetched since
// it was announced. Of what is older, any caller may know. A change that comes with it outdates as any does.
func TestToldLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, _ := newFleet(t, 2)
		again := cache.Change{Kinds: revision.SetOf(revision.Tools), Told: true, Again: true}
		before := of(fleet, revision.Tools)
		fleet[0].cache.Bump(revision.SetOf(revision.Tools))
		fleet[0].Settle(t.Context())
		since := of(fleet, revision.Tools)
		if fleet[1].cache.MayBeKnown(before[1]) {
			t.Error("before clients are told, they are taken for told")
		}
		fleet[0].cache.TellOthers(again)
		fleet[0].Settle(t.Context())
		wantFresh(t, "once clients are told", fleet, since, true)
		if c := fleet[1].cache; !c.MayBeKnown(before[1]) || c.MayBeKnown(since[1]) {
			t.Errorf("of what is older, callers may know: %v; of what is newer: %v", c.MayBeKnown(before[1]), c.MayBeKnown(since[1]))
		}
		for name, tell := range map[string]func(){
			"first": func() { fleet[0].cache.TellOthers(again); fleet[0].cache.Bump(revision.SetOf(revision.Tools)) },
			"last":  func() { fleet[0].cache.Bump(revision.SetOf(revision.Tools)); fleet[0].cache.TellOthers(again) },
		} {
			since = of(fleet, revision.Tools)
			tell()
			fleet[0].Settle(t.Context())
			wantFresh(t, "with a change, told "+name, fleet, since, false)
		}
	})
}
