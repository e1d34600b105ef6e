package exit

import (
	"testing"
	"testing/synctest"
	"time"
)

// testTimeout is that of the groups of these tests.
const testTimeout = 2 * time.Second

// after returns what is closed after d; it never ends if that is negative.
func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	if d >= 0 {
		time.AfterFunc(d, func() { close(c) })
	}
	return c
}

func TestGroupEndsTogether(t *testing.T) {
	const never = -1
	for name, tt := range map[string]struct {
		endings []time.Duration
		want    time.Duration
	}{
		"one":          {[]time.Duration{time.Second}, time.Second},
		"many":         {[]time.Duration{time.Second, 100, 1500 * time.Millisecond, time.Second}, 1500 * time.Millisecond},
		"one hangs":    {[]time.Duration{time.Second, never, time.Second}, testTimeout},
		"all hang":     {[]time.Duration{never, never, never}, testTimeout},
		"just in time": {[]time.Duration{testTimeout - 1}, testTimeout - 1},
		"just too late": {
			[]time.Duration{testTimeout + 1}, testTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := NewGroup(testTimeout)
				for range tt.endings {
					d.Add()
				}
				begun := time.Now()
				for i, ending := range tt.endings {
					d.Done(after(ending))
					if took := time.Since(begun); i < len(tt.endings)-1 && took > 0 {
						t.Errorf("handler %d waited %v", i, took)
					}
				}
				if took := time.Since(begun); took != tt.want {
					t.Errorf("it took %v in all, want %v", took, tt.want)
				}
			})
		})
	}
}

// What others go on to use has no end to wait for, wherever it stands.
func TestGroupLivesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewGroup(testTimeout)
		for range 4 {
			d.Add()
		}
		begun := time.Now()
		d.Done(nil)
		d.Done(after(time.Second))
		d.Done(nil)
		time.Sleep(time.Second / 2) // others are cleaned up in between
		d.Done(nil)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %v, want a second", took)
		}
		// A configuration that is given up while it is provisioned.
		d.Add()
		begun = time.Now()
		d.Done(nil)
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %v to leave nothing", took)
		}
	})
}
