package emptylist

import (
	"testing"
	"testing/synctest"
	"time"
)

// What is asked for again when Watch says so is believed at its bounds, not before.
func TestWatch(t *testing.T) {
	const refresh = 2 * time.Second
	for name, tt := range map[string]struct {
		announced bool
		next      []time.Duration // from the first answer on
	}{
		"nothing announced": {false, []time.Duration{time.Second, 5 * time.Second, 15 * time.Second}},
		"announced":         {true, []time.Duration{refresh}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w Watch
				for range 2 { // it can happen again
					first := time.Now()
					believed := w.Believes(first.Add(-time.Hour), tt.announced, refresh)
					for _, want := range tt.next {
						next := w.Next(tt.announced, refresh)
						if got := next.Sub(first); got != want || believed {
							t.Errorf("asked again after %v, want %v; believed: %v", got, want, believed)
						}
						time.Sleep(time.Until(next))
						if w.Believes(next.Add(-1), tt.announced, refresh) {
							t.Errorf("believed when it was asked for %v after the first time", want-1)
						}
						believed = w.Believes(next, tt.announced, refresh)
					}
					if !believed {
						t.Error("it is never believed")
					}
					if !w.Next(tt.announced, refresh).Equal(time.Now()) {
						t.Error("one that was asked for too early is not asked for again at once")
					}
					w.Full()
				}
			})
		})
	}
}

// A notice between two empty answers makes the second one believed.
func TestAnnouncedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		w.Believes(time.Now(), false, time.Second)
		time.Sleep(time.Second)
		if w.Believes(time.Now(), false, time.Second) || !w.Believes(time.Now(), true, time.Second) {
			t.Error("believed without the notice, or not with it")
		}
	})
}
