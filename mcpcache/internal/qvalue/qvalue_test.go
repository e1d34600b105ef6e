package qvalue

import "testing"

// A weight that is none counts as 0.
func TestWeights(t *testing.T) {
	for params, want := range map[string]Value{
		"": 1000, "x=1": 1000, "q=1": 1000, "q=1.": 1000, "q=1.000": 1000, "q=0": 0, "q=0.": 0, "q=0.5": 500, "q=0.05": 50,
		"q=0.005": 5, " Q = 0.25 ": 250, "x=2;q=0.1": 100, "q=0.1;q=0.2": 100,
		"q=NaN": 0, "q=Inf": 0, "q=1.1": 0, "q=0.0001": 0, "q=00.5": 0, "q=.5": 0, "q=+1": 0, "q=0x1": 0, "q=0.-1": 0, "q=0.a": 0, "q": 0,
	} {
		if got := In(params); got != want {
			t.Errorf("%q: got %d, want %d", params, got, want)
		}
	}
}
