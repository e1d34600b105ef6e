package flight

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errFailed = errors.New("the work has failed")

// TestAllAreGivenTheResult: all who wait are given what the first Land says, and so is everybody who asks later.
func TestAllAreGivenTheResult(t *testing.T) {
	for _, want := range []error{nil, errFailed} {
		synctest.Test(t, func(t *testing.T) {
			f := New[string]()
			var all sync.WaitGroup
			check := func(ctx context.Context) {
				if got, err := f.Wait(ctx); got != "list" || !errors.Is(err, want) {
					t.Errorf("got %q, error %v, want error %v", got, err, want)
				}
			}
			for range 10 {
				all.Go(func() { check(t.Context()) })
			}
			synctest.Wait()
			f.Land("list", want)
			f.Land("another", errors.ErrUnsupported)
			all.Wait()
			<-f.Landed()
			over, cancel := context.WithCancel(t.Context())
			cancel()
			for range 20 { // each time, both would be ready
				check(over)
			}
			f.waiters.Store(MaxWaiters)
			check(t.Context())
		})
	}
}

// TestLateCallersWaitNoLonger: the time counts from the moment at which the work was first asked for.
func TestLateCallersWaitNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New[string]()
		for _, c := range []struct{ after, want time.Duration }{
			{300 * time.Millisecond, 700 * time.Millisecond}, {time.Second, 0}, {time.Hour, 0},
		} {
			time.Sleep(c.after)
			began := time.Now()
			if _, err := f.WaitUpTo(t.Context(), time.Second); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != c.want {
				t.Errorf("waited for %s, want %s; error %v", time.Since(began), c.want, err)
			}
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errFailed)
		defer cancel()
		began := time.Now()
		if _, err := f.WaitUpTo(ctx, 24*time.Hour); !errors.Is(err, errFailed) || time.Since(began) != time.Minute {
			t.Errorf("a caller that leaves has waited for %s; error %v", time.Since(began), err)
		}
		f.Land("list", nil)
		if got, err := f.WaitUpTo(t.Context(), time.Second); got != "list" || err != nil {
			t.Errorf("of work that is over, got %q, error %v", got, err)
		}
	})
}

// TestResultWins: a caller whose time ends at the moment of the result is given the result.
func TestResultWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			f := New[string]()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				f.Land("list", nil)
				cancel()
			}()
			if got, err := f.Wait(ctx); got != "list" || err != nil {
				t.Fatalf("got %q, error %v", got, err)
			}
		}
	})
}

// TestPlacesOfWaitersAreBounded: a caller who finds all places taken has to do without, and a place that is left is
// free again.
func TestPlacesOfWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New[string]()
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range MaxWaiters {
			all.Go(func() {
				if _, err := f.Wait(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("one of those with a place got error %v", err)
				}
			})
		}
		synctest.Wait()
		if _, err := f.Wait(t.Context()); !errors.Is(err, ErrTooManyWaiters) {
			t.Errorf("one more got error %v", err)
		}
		leave()
		all.Wait()
		all.Go(func() {
			if got, err := f.Wait(t.Context()); got != "list" || err != nil {
				t.Errorf("in a place that was left, got %q, error %v", got, err)
			}
		})
		synctest.Wait()
		f.Land("list", nil)
		all.Wait()
	})
}

// TestOneFlightForEachKey: callers with the same key share a flight until it has landed.
func TestOneFlightForEachKey(t *testing.T) {
	g := Group[string, string]{Max: 3}
	flights := make(map[string]*Flight[string])
	for key := range g.Max {
		f, first := g.Join(strconv.Itoa(key))
		if !first {
			t.Fatalf("key %d has a flight already", key)
		}
		flights[strconv.Itoa(key)] = f
	}
	if f, first := g.Join("more"); f != nil || first {
		t.Error("the group has more flights than it may")
	}
	if f, first := g.Join("0"); f != flights["0"] || first {
		t.Error("a key has two flights")
	}
	flights["0"].Land("list", nil)
	flights["0"].Land("list", nil)
	f, first := g.Join("0")
	if f == flights["0"] || !first {
		t.Error("a flight is joined that has landed")
	}
	flights["0"].Land("list", nil) // which is over, and takes nobody's place
	if again, first := g.Join("0"); again != f || first {
		t.Error("a flight that has landed before has ended the next one")
	}
	if f, first := g.Join("more"); f != nil || first {
		t.Error("a flight that has landed before has made room twice")
	}
}
