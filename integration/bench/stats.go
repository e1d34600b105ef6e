package main

import (
	"math"
	"slices"
	"time"
)

// number is what medians are made of.
type number interface{ ~int64 | ~float64 }

// median returns the middle of values, which need no order; 0 of none.
func median[N number](values []N) N {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// percentile returns the smallest of the sorted values that p percent of them
// do not exceed; 0 of none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// figure is what a contender has reached over all rounds.
type figure struct{ median, least, most float64 }

// known reports whether there is a figure at all.
func (f figure) known() bool { return !math.IsNaN(f.median) }

// unknown is a figure that nothing was measured for.
var unknown = figure{math.NaN(), math.NaN(), math.NaN()}

// summarize returns the figure of values. Those that are not numbers, from
// rounds that do not count, are left out.
func summarize(values []float64) figure {
	counted := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(counted) == 0 {
		return unknown
	}
	return figure{median(counted), slices.Min(counted), slices.Max(counted)}
}

// ratios divides round by round.
func ratios(values, by []float64) []float64 {
	n := min(len(values), len(by))
	quotients := make([]float64, n)
	for i := range n {
		quotients[i] = divide(values[i], by[i])
	}
	return quotients
}

// divide returns a/b, or no number if b is 0.
func divide(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}
