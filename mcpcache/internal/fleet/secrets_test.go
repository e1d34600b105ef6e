package fleet

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// An instance that cannot open what another seals, or whose sealings the other cannot open, knows that,
// and says it once in its log. A second secret in each is enough for both.
func TestOtherSecrets(t *testing.T) {
	one, two, three := secret.New(), secret.New(), secret.New()
	for name, tt := range map[string]struct {
		first, second secret.Ring
		strangers     bool
	}{
		"the same":               {secret.Ring{one}, secret.Ring{one}, false},
		"others":                 {secret.Ring{one}, secret.Ring{two}, true},
		"one opens the other's":  {secret.Ring{one, two}, secret.Ring{two}, true},
		"each opens the other's": {secret.Ring{one, two}, secret.Ring{two, one}, false},
		"none has the other's":   {secret.Ring{one, three}, secret.Ring{two, three}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet, trial := newFleet(t, 1)
				of := func(ring secret.Ring) Secrets {
					return func(context.Context) (secret.Ring, error) { return ring, nil }
				}
				first, second := fleet[0], newInstance(t, trial)
				first.UseSecrets(of(tt.first))
				second.UseSecrets(of(tt.second))
				prompts := first.fetched(revision.Prompts)
				second.run(t)
				defer second.end()
				time.Sleep(2 * life)
				for _, i := range []*instance{first, second} {
					other := second.Name()
					if i == second {
						other = first.Name()
					}
					if is := slices.Equal(i.Status().Strangers, []string{other}); is != tt.strangers {
						t.Errorf("those with other secrets are %v", i.Status().Strangers)
					}
					if n := i.log.FilterMessageSnippet("has other secrets").Len(); n != 1 && tt.strangers || n != 0 && !tt.strangers {
						t.Errorf("the log says that %d times", n)
					}
				}
				if !first.isFresh(prompts) {
					t.Error("to say which secrets there are has cost lists")
				}
				second.UseSecrets(of(tt.first)) // at a reload
				second.Use(second.store, zap.New(second.core))
				time.Sleep(life)
				if s := first.Status().Strangers; len(s) != 0 {
					t.Errorf("once both have the same, those with other secrets are %v", s)
				}
				first.log.TakeAll() // newFleet wants no warnings
			})
		})
	}
}

// Secrets that are not there yet are said once they are, and what a store has failed to pass on is said
// again.
func TestSecretsComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trial, there := storetest.NewTrial(), make(chan struct{})
		both := []*instance{newInstance(t, trial), newInstance(t, trial)}
		for _, i := range both {
			ring := secret.Ring{secret.New()}
			i.UseSecrets(func(ctx context.Context) (secret.Ring, error) {
				select {
				case <-there:
					return ring, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})
			i.run(t)
			defer i.end()
		}
		time.Sleep(life)
		if s := both[0].Status().Strangers; len(s) != 0 {
			t.Errorf("before anything is known, those with other secrets are %v", s)
		}
		both[0].store.SetAway(errAway)
		close(there)
		time.Sleep(3 * life)
		both[0].store.SetAway(nil)
		time.Sleep(2 * life)
		for n, i := range both {
			if s := i.Status().Strangers; !slices.Equal(s, []string{both[1-n].Name()}) {
				t.Errorf("at %d, those with other secrets are %v", n, s)
			}
		}
	})
}

// Whoever can write to the store can speak for names that are none of members. An instance that has heard
// thousands of them still knows what a new member says.
func TestForgedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, trial := newFleet(t, 1)
		of := func() Secrets {
			ring := secret.Ring{secret.New()}
			return func(context.Context) (secret.Ring, error) { return ring, nil }
		}
		fleet[0].UseSecrets(of())
		for n := range 5 * maxMembers {
			fleet[0].receiveSecrets(fmt.Sprint("forged", n), []string{"0123456789abcdef"})
		}
		if n := len(fleet[0].known.said); n > maxMembers {
			t.Errorf("%d names are known", n)
		}
		second := newInstance(t, trial)
		second.UseSecrets(of())
		second.run(t)
		defer second.end()
		time.Sleep(2 * life)
		if s := fleet[0].Status().Strangers; !slices.Equal(s, []string{second.Name()}) {
			t.Errorf("those with other secrets are %v", s)
		}
		fleet[0].log.TakeAll() // newFleet wants no warnings
	})
}
