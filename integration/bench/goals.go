package main

import (
	"fmt"
	"math"
)

// leastHit is what -check demands of a hit, as a part of the requests per
// second of a handler that writes ready bytes. It is less than the goal, so
// that a machine that is shared does not fail it.
const leastHit = 0.85

// goal is a bound for a figure.
type goal struct {
	what    string
	bound   float64
	atMost  bool // else at least
	unit    string
	reached float64 // no number if it was not measured
	// failed says that the figure came about in a way that does not count.
	failed bool
}

// met reports whether the goal was reached; it must have been measured.
func (g goal) met() bool {
	switch {
	case g.failed:
		return false
	case g.atMost:
		return g.reached <= g.bound
	}
	return g.reached >= g.bound
}

// cells are the goal's row.
func (g goal) cells() []string {
	sign := "≥"
	if g.atMost {
		sign = "≤"
	}
	wanted := sign + " " + show(g.bound, decimals(g.bound)) + g.unit
	if math.IsNaN(g.reached) {
		return []string{g.what, wanted, none, none}
	}
	verdict := "no"
	if g.met() {
		verdict = "yes"
	}
	return []string{g.what, wanted, show(g.reached, 2) + g.unit, verdict}
}

// decimals are as many as a bound needs.
func decimals(bound float64) int {
	for n := range 2 {
		if scaled := bound * math.Pow10(n); scaled == math.Trunc(scaled) {
			return n
		}
	}
	return 2
}

// goals returns all goals with what was reached.
func (r *results) goals() []goal {
	goals := append(r.hitGoals(), r.otherGoals()...)
	for i, kind := range callerKinds {
		g := goal{what: "10,000 partitions, " + kind.what, bound: kind.bound, atMost: true, unit: " MiB", reached: math.NaN()}
		if i < len(r.memory) {
			g.reached = mebibytes(r.memory[i].resident)
			g.failed = kind.whole && r.memory[i].kept < 1
		}
		goals = append(goals, g)
	}
	return goals
}

// hitGoals are those about two contenders that answer lists.
func (r *results) hitGoals() []goal {
	var goals []goal
	for _, pair := range []struct {
		what          string
		over, against string
		bounds        map[int]float64
	}{
		{"hit / handler of ready bytes", nameHit, nameStatic, map[int]float64{5: 0.95, 50: 0.95, 500: 1.15}},
		{"hit / `respond`", nameHit, nameRespond, map[int]float64{5: 1.4, 50: 4, 500: 10}},
		{"hit, zstd / `encode` over a hit", nameHitZstd, nameEncodeZstd, map[int]float64{5: 1.6, 50: 5.5, 500: 45}},
		{"hit, gzip / `encode` over a hit", nameHitGzip, nameEncodeGzip, map[int]float64{5: 1.6, 50: 5.5, 500: 45}},
		{"hit, zstd / hit", nameHitZstd, nameHit, map[int]float64{500: 2.5}},
		{"hit / mcp-go server", nameHit, nameMCPGo, map[int]float64{5: 2.6, 50: 14}},
		{"hit, zstd / mcp-go server", nameHitZstd, nameMCPGo, map[int]float64{500: 110}},
		{"hit / go-sdk server", nameHit, nameGoSDK, map[int]float64{50: 14}},
		{"hit / TypeScript SDK high-level server", nameHit, nameTypeScript, map[int]float64{50: 140}},
	} {
		for _, n := range []int{5, 50, 500} {
			if bound, ok := pair.bounds[n]; ok {
				goals = append(goals, goal{
					what: fmt.Sprintf("%s, %d tools", pair.what, n), bound: bound,
					reached: ratio(find(r.lists[n], pair.over), find(r.lists[n], pair.against)),
				})
			}
		}
	}
	return goals
}

// otherGoals are those about bytes, calls, streams, allocations and changes.
func (r *results) otherGoals() []goal {
	size, mallocs := math.NaN(), math.NaN()
	if hit, small := find(r.lists[500], nameHit), find(r.lists[500], nameHitZstd); hit != nil && small != nil {
		size = divide(small.bytes(), hit.bytes())
	}
	if hit, static := find(r.lists[checkedTools], nameHit), find(r.lists[checkedTools], nameStatic); hit != nil && static != nil {
		mallocs = hit.mallocs() - static.mallocs()
	}
	return []goal{
		{what: "bytes of a hit, zstd / hit, 500 tools", bound: 0.25, atMost: true, reached: size},
		{
			what: "small call / `reverse_proxy`", bound: 0.97,
			reached: ratio(find(r.calls, nameCall), find(r.calls, nameCallProxy)),
		},
		{
			what: "1 MB call / `reverse_proxy`", bound: 0.98,
			reached: ratio(find(r.calls, nameCallLarge), find(r.calls, nameCallLargeP)),
		},
		{
			what: "first event, above `reverse_proxy`", bound: 50, atMost: true, unit: " µs",
			reached: durations(r.first, difference).median,
		},
		{what: "allocations of a hit above ready bytes", bound: 3, atMost: true, reached: mallocs},
		{
			what: "p99 of hits, changing / at rest", bound: 1.2, atMost: true,
			reached: changeRatio(r.changes, loadedP99).median,
		},
	}
}

func (r *results) goalTable() *table {
	t := &table{header: []string{"goal", "wanted", "reached", "met"}}
	for _, g := range r.goals() {
		// Whoever chose what to measure knows what was not.
		if len(r.options.only) == 0 || !math.IsNaN(g.reached) {
			t.add(g.cells()...)
		}
	}
	return t
}

// check returns an error if a hit costs too much, by the median of rounds and by
// the best rounds: whatever else a machine does makes both rounds of a pair
// slower, but seldom by the same.
func (r *results) check() error {
	all := r.lists[checkedTools]
	hit, static := find(all, nameHit), find(all, nameStatic)
	if hit == nil || static == nil {
		return fmt.Errorf("checking hits: %s or %s was not measured", nameHit, nameStatic)
	}
	best := divide(hit.figure(sample.perCore).most, static.figure(sample.perCore).most)
	if reached := max(ratio(hit, static), best); reached < leastHit {
		return fmt.Errorf("checking hits: %s of ready bytes at %d tools, at least %s wanted",
			show(reached, 2), checkedTools, show(leastHit, 2))
	}
	return nil
}
