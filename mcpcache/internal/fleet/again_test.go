package fleet

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	bodies "github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
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
		fleet[0].cache.PublishChange(again)
		fleet[0].Settle(t.Context())
		wantFresh(t, "once clients are told", fleet, since, true)
		if c := fleet[1].cache; !c.MayBeKnown(before[1]) || c.MayBeKnown(since[1]) {
			t.Errorf("of what is older, callers may know: %v; of what is newer: %v", c.MayBeKnown(before[1]), c.MayBeKnown(since[1]))
		}
		for name, tell := range map[string]func(){
			"first": func() { fleet[0].cache.PublishChange(again); fleet[0].cache.Bump(revision.SetOf(revision.Tools)) },
			"last":  func() { fleet[0].cache.Bump(revision.SetOf(revision.Tools)); fleet[0].cache.PublishChange(again) },
		} {
			since = of(fleet, revision.Tools)
			tell()
			fleet[0].Settle(t.Context())
			wantFresh(t, "with a change, told "+name, fleet, since, false)
		}
	})
}

// An instance tells another which list its clients are about to hear of. The other one keeps all that it has if
// its own list is the same, or newer. Otherwise it outdates everything of the kind, as any caller may know.
func TestListElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		has      string // "": no list
		outdated bool   // a change was announced after the list there was asked for
		newer    bool   // a change was announced after the list was asked for that clients are told of
		// keeps says that a list from after the last change stays fresh. Callers may know that a list from
		// before it is old (older), and the list from after it (recent).
		keeps, older, recent bool
	}{
		"the same":                   {has: "a", keeps: true, older: true},
		"the same, which is too old": {has: "a", outdated: true, keeps: true},
		"another one":                {has: "b", older: true, recent: true},
		"another one, too old":       {has: "b", outdated: true, keeps: true, older: true},
		"another one, which is new":  {has: "b", newer: true, keeps: true},
		"none, in that revision":     {keeps: true, older: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, _ := newFleet(t, 2)
				pin := func(does bool) {
					if e := fleet[1].fetched(revision.Tools); does && c.has != "" {
						e.Body = &bodies.Body{ItemsDigest: sha256.Sum256([]byte(c.has))}
						fleet[1].cache.Pin(e)
					}
				}
				pin(c.outdated)
				before := of(fleet, revision.Tools)
				fleet[1].cache.Bump(revision.SetOf(revision.Tools))
				fleet[1].Settle(t.Context())
				since, prompts := of(fleet, revision.Tools), of(fleet, revision.Prompts)
				pin(!c.outdated)
				fleet[0].cache.PublishChange(cache.Change{Lists: []cache.Listed{{
					Revision: revision.LatestModern, Kind: revision.Tools, Items: sha256.Sum256([]byte("a")), Outdated: c.newer,
				}}})
				fleet[0].Settle(t.Context())
				wantFresh(t, "where clients are told", fleet[:1], since[:1], true)
				wantFresh(t, "elsewhere", fleet[1:], since[1:], c.keeps)
				wantFresh(t, "another kind", fleet, prompts, true)
				e := fleet[1].fetched(revision.Tools)
				e.Body = &bodies.Body{ItemsDigest: sha256.Sum256([]byte(c.has))}
				if told := fleet[1].cache.IsNotifiedElsewhere(e); told != (c.has == "a") {
					t.Errorf("whether clients were told of %q: %v", c.has, told)
				}
				older, recent := fleet[1].cache.MayBeKnown(before[1]), fleet[1].cache.MayBeKnown(since[1])
				if older != c.older || recent != c.recent {
					t.Errorf("callers may know that the list from before the change is old: %v; the list from after it: %v", older, recent)
				}
			})
		})
	}
}
