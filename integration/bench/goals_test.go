package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestGoalMet(t *testing.T) {
	for _, c := range []struct {
		goal goal
		want bool
	}{
		{goal{bound: 0.95, reached: 0.95}, true},
		{goal{bound: 0.95, reached: 0.949}, false},
		{goal{bound: 1.2, reached: 1.2, atMost: true}, true},
		{goal{bound: 1.2, reached: 1.21, atMost: true}, false},
		{goal{bound: 1.2, reached: 1, atMost: true, failed: true}, false},
	} {
		if got := c.goal.met(); got != c.want {
			t.Errorf("%+v: got %v", c.goal, got)
		}
	}
}

func TestGoalCells(t *testing.T) {
	for _, c := range []struct {
		goal goal
		want string
	}{
		{goal{what: "a", bound: 0.95, reached: 0.96}, "a|≥ 0.95|0.96|yes"},
		{goal{what: "a", bound: 1.4, reached: 1}, "a|≥ 1.4|1.00|no"},
		{goal{what: "a", bound: 50, atMost: true, unit: " µs", reached: 12}, "a|≤ 50 µs|12.00 µs|yes"},
		{goal{what: "a", bound: 3, atMost: true, reached: math.NaN()}, "a|≤ 3|n/a|n/a"},
	} {
		if got := strings.Join(c.goal.cells(), "|"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// reached returns what was reached of the only goal whose name begins so.
func reached(t *testing.T, r *results, what string) goal {
	t.Helper()
	var found []goal
	for _, g := range r.goals() {
		if strings.HasPrefix(g.what, what) {
			found = append(found, g)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d goals begin with %q", len(found), what)
	}
	return found[0]
}

func TestGoals(t *testing.T) {
	r := fullResults(measured(nameStatic, 1000), measured(nameHit, 960), measured(nameMCPGo, 60))
	r.lists[500] = []*series{measured(nameHit, 100), measured(nameHitZstd, 270)}
	r.lists[500][1].samples[0].Bytes = 270 * 20
	r.calls = []*series{measured(nameCallProxy, 100), measured(nameCall, 98), measured(nameCallLargeP, 10), measured(nameCallLarge, 9)}
	r.first = []PairResult{{Difference: 40 * time.Microsecond}}
	r.changes = []changeResult{{
		changeRound{loaded: LoadResult{P99: 100}}, changeRound{loaded: LoadResult{P99: 110}},
	}}
	r.memory = []memoryResult{{resident: 10 << 20, kept: 0.5}, {resident: 50 << 20, kept: 1}, {resident: 70 << 20, kept: 0.1}}
	for what, want := range map[string]struct {
		reached float64
		met     bool
	}{
		"hit / handler of ready bytes, 50 ":      {0.96, true},
		"hit / mcp-go server, 50":                {16, true},
		"hit, zstd / hit, 500":                   {2.7, true},
		"bytes of a hit, zstd / hit":             {0.2, true},
		"small call":                             {0.98, true},
		"1 MB call":                              {0.9, false},
		"first event":                            {40, true},
		"allocations":                            {0, true},
		"p99 of hits":                            {1.1, true},
		"10,000 partitions, the same list":       {10, false}, // only half of them were kept
		"10,000 partitions, different lists mad": {50, true},
		"10,000 partitions, different lists of":  {70, true},
	} {
		g := reached(t, r, what)
		if math.Abs(g.reached-want.reached) > 1e-9 || g.met() != want.met {
			t.Errorf("%s: got %v, met %v", what, g.reached, g.met())
		}
	}
	if g := reached(t, r, "hit / TypeScript"); !math.IsNaN(g.reached) {
		t.Errorf("what was not measured has reached %v", g.reached)
	}
}

func TestGoalTableOfFewContenders(t *testing.T) {
	r := fullResults(measured(nameStatic, 1000), measured(nameHit, 960))
	all := len(r.goalTable().rows)
	r.options.only = []string{nameStatic, nameHit}
	if few := len(r.goalTable().rows); few != 2 || all != len(r.goals()) {
		t.Errorf("%d rows of all contenders, %d of two; want %d and 2", all, few, len(r.goals()))
	}
}

func TestCheck(t *testing.T) {
	for requests, ok := range map[int]bool{849: false, 850: true, 1100: true} {
		err := fullResults(measured(nameStatic, 1000), measured(nameHit, requests)).check()
		if (err == nil) != ok {
			t.Errorf("%d of 1000 requests: got %v", requests, err)
		}
	}
	if err := fullResults(measured(nameStatic, 1000, 900, 900), measured(nameHit, 900, 500, 500)).check(); err != nil {
		t.Errorf("two of three rounds were slow: %v", err)
	}
	if fullResults(measured(nameStatic, 1000)).check() == nil {
		t.Error("a hit that was not measured passes")
	}
}
