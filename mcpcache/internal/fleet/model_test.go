package fleet

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// TestModel has instances and a store go through random trouble: announcements that are lost, late
// and repeated, numbers of another counter, ways that are cut, a store that forgets, reloads. Whenever one has waited for the
// others, none that was a member has anything from before the change, unless the one was cut off
// before the others. At the end, nobody has anything from before any change.
func TestModel(t *testing.T) {
	for range 200 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			m := &model{T: t, rand: rand.New(rand.NewPCG(seed, 0)), cut: make(map[int]bool), ways: make(map[int][]*storetest.Shared)}
			m.fleet, m.trial = newFleet(t, 3)
			for range 60 {
				m.step()
			}
			m.heal()
			if t.Failed() {
				t.Logf("seed %d:\n%s", seed, strings.Join(m.steps, "\n"))
			}
		})
		if t.Failed() {
			return
		}
	}
}

// model is a run of the model test.
type model struct {
	*testing.T

	rand  *rand.Rand
	fleet []*instance
	trial *storetest.Trial
	cut   map[int]bool
	once  bool                        // all were cut off at once
	ways  map[int][]*storetest.Shared // to the store, of each also those from before reloads
	steps []string
}

func (m *model) did(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

// step takes one step of those that there are.
func (m *model) step() {
	n := m.rand.IntN(len(m.fleet))
	one := m.fleet[n]
	switch m.rand.IntN(10) {
	case 0:
		m.cut[n], m.once = !m.cut[n], false
		m.reach(n)
	case 1:
		all := m.rand.IntN(2) == 0
		m.once = all && !m.cut[0] && !m.cut[1] && !m.cut[2]
		for n := range m.fleet {
			m.cut[n] = all
			m.reach(n)
		}
	case 2:
		m.did("the store forgets")
		m.trial.Forget()
	case 3:
		lost, repeated, late := m.rand.Float64()/2, m.rand.Float64()/2, m.rand.IntN(400)
		if m.rand.IntN(2) == 0 {
			lost, repeated, late = 0, 0, 0
		}
		m.did("%d loses %.2f, hears %.2f twice, up to %d ms late", n, lost, repeated, late)
		one.store.SetDelivery(func(stores.Announcement) int {
			if late > 0 {
				time.Sleep(time.Duration(rand.IntN(late)) * time.Millisecond)
			}
			switch p := rand.Float64(); {
			case p < lost:
				return 0
			case p < lost+repeated:
				return 2
			}
			return 1
		})
	case 4:
		m.did("%d is reloaded", n)
		m.ways[n] = append(m.ways[n], one.store)
		one.store = &storetest.Shared{Trial: m.trial}
		m.reach(n)
		one.Use(one.store, zap.NewNop())
	case 5, 6:
		m.change(n)
	case 7:
		a := stores.Announcement{Number: foreign(m.rand.Uint64N(1000)), Confirmed: m.rand.IntN(2) == 0, Message: []byte("{}")}
		m.did("all hear %+v", a)
		m.trial.Forge("place", a)
	default:
		d := time.Duration(m.rand.IntN(700)) * time.Millisecond
		m.did("%v pass", d)
		time.Sleep(d)
	}
}

// reach has an instance reach the store, or not.
func (m *model) reach(n int) {
	m.did("%d is cut off: %v", n, m.cut[n])
	for _, way := range append(m.ways[n], m.fleet[n].store) {
		way.SetAway(nil)
		if m.cut[n] {
			way.SetAway(errAway)
		}
	}
}

// change announces a change to one instance, and checks what the others have.
func (m *model) change(n int) {
	k := revision.Kind(m.rand.IntN(revision.NumKinds))
	entries, one := of(m.fleet, k), m.fleet[n]
	var members []bool
	for _, other := range m.fleet {
		members = append(members, other.Together())
	}
	one.cache.Bump(revision.SetOf(k))
	took := one.settles()
	m.did("%s change at %d, which waits %v", k, n, took)
	if took > longest {
		m.Errorf("one waits %v", took)
	}
	for other, e := range entries {
		if m.fleet[other].isFresh(e) && (other == n || members[other] && (!m.cut[n] || m.once && members[n])) {
			m.Errorf("%s have changed at %d, and at %d the old are fresh", k, n, other)
		}
	}
}

// heal ends all trouble, and checks that they are together then.
func (m *model) heal() {
	var last []*cache.Entry
	for _, one := range m.fleet {
		last = of(m.fleet, revision.Tools)
		one.cache.Bump(revision.SetOf(revision.Tools))
		synctest.Wait()
	}
	for n, one := range m.fleet {
		m.cut[n] = false
		m.reach(n)
		one.store.SetDelivery(nil)
	}
	time.Sleep(3 * life)
	for n, one := range m.fleet {
		if !one.Together() {
			m.Errorf("at the end, %d is alone", n)
		}
		if one.isFresh(last[n]) {
			m.Errorf("at the end, what %d has is from before a change", n)
		}
	}
	entries := of(m.fleet, revision.Tools)
	m.fleet[0].cache.Bump(revision.SetOf(revision.Tools))
	if took := m.fleet[0].settles(); took != 0 {
		m.Errorf("at the end, one waits %v", took)
	}
	wantFresh(m.T, "at the end", m.fleet, entries, false)
}
