package announce

import (
	"testing"
	"time"
)

// Notices that announce nothing double the pause, up to a minute or a longer refresh; a change
// ends that. Only what was heard on our own stream too is said to be in vain.
func TestNoticesInVain(t *testing.T) {
	for refresh, want := range map[time.Duration][]float64{
		time.Second:      {1, 2, 4, 8, 16, 32, 60, 60, 60},
		20 * time.Second: {20, 40, 60, 60},
		2 * time.Minute:  {120, 120, 120},
	} {
		var r Record
		r.Hear()
		for n, pause := range want {
			if got := r.Pause(refresh); got.Seconds() != pause {
				t.Errorf("after %d notices in vain, refresh %v, the pause is %v, want %v s", n, refresh, got, pause)
			}
			if r.InVain() != (n >= vainly) {
				t.Errorf("after %d notices, in vain: %v", n, r.InVain())
			}
			if found := r.Fetched(true, true); found != (n+1 == vainly) {
				t.Errorf("notice %d: found %v", n+1, found)
			}
			if r.Fetched(false, true) { // nothing was announced, and nothing has changed
				t.Error("a fetch without a notice counts")
			}
		}
		if r.Fetched(true, false); r.InVain() || r.Pause(refresh) != refresh {
			t.Errorf("after a change, in vain: %v, pause: %v", r.InVain(), r.Pause(refresh))
		}
	}
	var r Record
	for range 2 * vainly {
		if r.Fetched(true, true) || r.InVain() {
			t.Error("what only clients were told counts as said to us")
		}
	}
	if got := r.Pause(time.Second); got != longest {
		t.Errorf("the pause is %v", got)
	}
}

// A change is announced in time if the notice comes within a second of it, before or after.
func TestCaught(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		late   time.Duration // of the notice
		caught bool
	}{
		"in time": {time.Second, false}, "too late": {time.Second + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			var r Record
			r.Find(now)
			r.Find(now.Add(time.Millisecond)) // the first one counts
			r.Notice(now.Add(tt.late))
			if got := r.Caught(now.Add(time.Minute)); got != tt.caught {
				t.Errorf("caught: %v", got)
			}
		})
	}
	var r Record
	if r.Proven(now, time.Minute) {
		t.Error("an upstream that has done nothing is proven to announce")
	}
	if r.Check(now); !r.Proven(now.Add(time.Minute-1), time.Minute) || r.Proven(now.Add(time.Minute), time.Minute) {
		t.Error("a check counts for a minute")
	}
	if r.Notice(now); !r.Proven(now.Add(time.Hour), time.Minute) {
		t.Error("a notice is no proof")
	}
	if r.Catch(); !r.Caught(now) {
		t.Error("it is not caught")
	}
}
