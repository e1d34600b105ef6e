package fleet

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// What is logged of members.
const (
	hasBegun = "together with the other instances"
	hasOther = "the instances have changed"
)

// names returns those of instances, in order.
func names(fleet ...*instance) (all []string) {
	for _, i := range fleet {
		all = append(all, i.Name())
	}
	slices.Sort(all)
	return all
}

// wantLog fails unless that is all that was logged since the last call: messages, and of each the
// members.
func (i *instance) wantLog(t *testing.T, when string, want ...string) {
	t.Helper()
	var got []string
	for _, line := range i.log.TakeAll() {
		fields := line.ContextMap()
		if members, told := fields["members"]; told {
			got = append(got, fmt.Sprint(line.Message, members))
			if fields["name"] != i.Name() {
				t.Errorf("%s, it is called %v", when, fields["name"])
			}
		} else {
			got = append(got, line.Message)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s, the log has %q, want %q", when, got, want)
	}
}

// line is one of the log, of members.
func line(message string, fleet ...*instance) string { return fmt.Sprint(message, names(fleet...)) }

// wantTogether fails unless an instance has been together with those since then.
func (i *instance) wantTogether(t *testing.T, when string, since time.Time, fleet ...*instance) {
	t.Helper()
	if s := i.Status(); s.Name != i.Name() || !s.Together || !s.Since.Equal(since) || !slices.Equal(s.Members, names(fleet...)) {
		t.Errorf("%s, it stands as %+v, want it together with %q since %v", when, s, names(fleet...), since)
	}
}

// wantAlone fails unless an instance has been alone since then.
func (i *instance) wantAlone(t *testing.T, when string, since time.Time) {
	t.Helper()
	if s := i.Status(); s.Name != i.Name() || s.Together || !s.Since.Equal(since) || s.Members != nil {
		t.Errorf("%s, it stands as %+v, want it alone since %v", when, s, since)
	}
}

// Each instance knows who the others are, and logs when that changes, and nothing in between.
func TestInstancesKnowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trial := storetest.NewTrial()
		first, second := newInstance(t, trial), newInstance(t, trial)
		first.wantAlone(t, "before it begins", time.Time{})
		begun := time.Now()
		first.run(t)
		synctest.Wait()
		first.wantTogether(t, "when it has begun", begun, first)
		first.wantLog(t, "when it has begun", line(hasBegun, first))
		time.Sleep(time.Minute)
		later := time.Now()
		second.run(t)
		time.Sleep(beat)
		synctest.Wait()
		first.wantTogether(t, "with a second", begun, first, second)
		second.wantTogether(t, "with a first", later, first, second)
		first.wantLog(t, "with a second", line(hasOther, first, second))
		second.wantLog(t, "with a first", line(hasBegun, first, second))
		time.Sleep(time.Hour)
		first.wantLog(t, "an hour later")
		second.wantLog(t, "an hour later")
		for range 3 { // reloads
			second.store = &storetest.Shared{Trial: trial}
			second.Use(second.store, zap.New(second.core))
			time.Sleep(time.Minute)
		}
		first.wantLog(t, "after reloads")
		second.wantLog(t, "after reloads")
		second.wantTogether(t, "after reloads", later, first, second)
		second.end()
		time.Sleep(beat)
		synctest.Wait()
		second.wantAlone(t, "once it has ended", time.Now().Add(-beat))
		first.wantTogether(t, "once the second has ended", begun, first)
		first.wantLog(t, "once the second has ended", line(hasOther, first))
		first.end()
	})
}

// Who is cut off is alone from the end of its membership on, and says when it is back. Others say that
// it is missing, and that it is back.
func TestInstanceThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, _ := newFleet(t, 3)
		all := func(take func(i *instance)) {
			for _, i := range fleet {
				take(i)
			}
		}
		all(func(i *instance) { i.log.TakeAll() })
		fleet[0].store.SetAway(errAway)
		time.Sleep(time.Minute)
		if since := time.Since(fleet[0].Status().Since); since > time.Minute-life/2 || since < time.Minute-life {
			t.Errorf("it has been alone for %v", since)
		}
		fleet[0].wantAlone(t, "while it is cut off", fleet[0].Status().Since)
		fleet[0].wantLog(t, "while it is cut off") // the store says that
		fleet[1].wantLog(t, "without the first", line(hasOther, fleet[1:]...))
		fleet[0].store.SetAway(nil)
		time.Sleep(life)
		fleet[0].wantTogether(t, "once it is back", fleet[0].Status().Since, fleet...)
		fleet[0].wantLog(t, "once it is back", line(hasBegun, fleet...))
		all(func(i *instance) { i.store.SetAway(errAway) })
		time.Sleep(time.Minute)
		all(func(i *instance) { i.store.SetAway(nil); i.log.TakeAll() })
		time.Sleep(life)
		all(func(i *instance) {
			if lines := i.log.TakeAll(); len(lines) == 0 || lines[0].Message != hasBegun {
				t.Errorf("once all are back, the log has %v", lines)
			}
			i.wantTogether(t, "once all are back", i.Status().Since, fleet...)
		})
	})
}

// While it is not sure that memberships last, as they did not, no line says that one has begun.
func TestMembershipsThatDoNotLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance(t, storetest.NewTrial()).run(t)
		defer i.end()
		synctest.Wait()
		i.wantLog(t, "at first", line(hasBegun, i))
		const hasFailed = "joining the other instances failed: this one hears of no changes from them"
		i.store.SetTrouble(func(_ context.Context, operation, _ string) error {
			if operation == "confirm" {
				return errors.New("no permission")
			}
			return nil
		})
		time.Sleep(time.Hour)
		i.wantLog(t, "while it cannot stay", hasFailed)
		i.store.SetTrouble(nil)
		time.Sleep(lastPause + stable + beat)
		i.wantLog(t, "once it can", line(hasBegun, i))
		time.Sleep(time.Hour)
		i.wantLog(t, "after that")
		i.store.SetTrouble(func(context.Context, string, string) error {
			i.store.SetTrouble(nil)
			return errors.New("no permission")
		})
		since := i.Status().Since
		time.Sleep(time.Hour)
		i.wantTogether(t, "after one failure", since, i)
		i.wantLog(t, "after one failure", hasFailed, line(hasBegun, i))
	})
}

// Names tell people the host, fit into whatever they are written in, and are an instance's own.
func TestNames(t *testing.T) {
	valid := regexp.MustCompile(`^[A-Za-z0-9.-]+-[a-z2-7]{10}$`)
	for host, want := range map[string]string{
		"web-1.example.com": "web-1.example.com-", "": "caddy-", "...": "caddy-", "ü b/c\n:": "bc-", "-a.": "a-",
		strings.Repeat("x", 100): strings.Repeat("x", longestHost) + "-",
	} {
		name, other := newName(host), newName(host)
		if !valid.MatchString(name) || !strings.HasPrefix(name, want) || len(name) != len(want)+10 || name == other {
			t.Errorf("on the host %q, instances are called %q and %q", host, name, other)
		}
	}
	if name := newName(hostName()); !valid.MatchString(name) {
		t.Errorf("here they are called %q", name)
	}
}

// How it stands can be asked while the store hangs.
func TestStandingWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, trial := newFleet(t, 2)
		trial.SetTrouble(func(ctx context.Context, _, _ string) error { <-ctx.Done(); return stores.ErrAway })
		time.Sleep(beat)
		begun := time.Now()
		if !fleet[0].Status().Together || fleet[1].Failure() != nil {
			t.Error("they are not together")
		}
		if time.Since(begun) != 0 {
			t.Errorf("asking took %v", time.Since(begun))
		}
		trial.SetTrouble(nil)
		time.Sleep(2 * life)
	})
}
