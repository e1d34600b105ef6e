package main

import (
	"math"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{9, 1, 5, 2}, 3.5},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
	values := []float64{2, 1}
	if median(values); values[0] != 2 {
		t.Error("median has sorted what it was given")
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		sorted []time.Duration
		p      int
		want   time.Duration
	}{
		{nil, 99, 0}, {hundred, 50, 50}, {hundred, 99, 99}, {hundred[:1], 99, 1}, {hundred[:10], 99, 10}, {hundred, 0, 1},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("percentile %d of %d values is %v, want %v", c.p, len(c.sorted), got, c.want)
		}
	}
}

func TestSummarizeLeavesOut(t *testing.T) {
	nan := math.NaN()
	if got, want := summarize([]float64{nan, 4, 2, nan, 9}), (figure{4, 2, 9}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if summarize([]float64{nan}).known() || summarize(nil).known() {
		t.Error("a figure of nothing is known")
	}
}

func TestRatiosPairRounds(t *testing.T) {
	got := ratios([]float64{10, 20, math.NaN(), 5}, []float64{5, 0, 1})
	if len(got) != 3 || got[0] != 2 || !math.IsNaN(got[1]) || !math.IsNaN(got[2]) {
		t.Errorf("got %v, want 2 and twice no number", got)
	}
}
