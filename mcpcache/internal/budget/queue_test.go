package budget

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever enters waits for all before, but no longer than it likes, and not when nobody waits
// for its work any more.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue()
		if !q.Enter(t.Context(), 0) {
			t.Fatal("an empty queue cannot be entered")
		}
		var waiting sync.WaitGroup
		var entered []string
		enter := func(ctx context.Context, name string, patience time.Duration) {
			waiting.Go(func() {
				if q.Enter(ctx, patience) {
					entered = append(entered, name)
					q.Leave()
				}
			})
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		enter(t.Context(), "impatient", time.Second)
		enter(gone, "gone", time.Minute)
		enter(t.Context(), "patient", time.Minute)
		time.Sleep(2 * time.Second)
		leave()
		synctest.Wait()
		q.Leave()
		waiting.Wait()
		if len(entered) != 1 || entered[0] != "patient" {
			t.Errorf("%v have entered", entered)
		}
		if !q.Enter(t.Context(), 0) {
			t.Error("somebody is still in")
		}
	})
}

// A share waits until another one gives bytes back, or the limit grows.
func TestGrowSoon(t *testing.T) {
	const limit = 16 * smallShare
	for name, tt := range map[string]struct {
		frees func(b *Budget, other *Share)
		want  bool
	}{
		"the other gives back all": {func(_ *Budget, other *Share) { other.Release() }, true},
		"the limit grows":          {func(b *Budget, _ *Share) { b.SetLimit(2 * limit) }, true},
		"some is given back": {func(b *Budget, _ *Share) {
			small := b.Share()
			small.Grow(smallShare)
			small.Release()
		}, false},
		"nothing happens": {func(*Budget, *Share) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New(limit)
				if b.Largest() != limit/4*3 {
					t.Errorf("one share can have %d of %d", b.Largest(), limit)
				}
				other, mine := b.Share(), b.Share()
				other.Grow(b.Largest())
				time.AfterFunc(time.Second, func() { tt.frees(b, &other) })
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				if got := mine.GrowSoon(ctx, b.Largest()); got != tt.want || got && time.Since(began) != time.Second {
					t.Errorf("got %v after %s, want %v", got, time.Since(began), tt.want)
				}
				if got := mine.Size() > 0; got != tt.want {
					t.Errorf("it has %d bytes", mine.Size())
				}
			})
		})
	}
	if none := new(Share); none.GrowSoon(t.Context(), 1) {
		t.Error("a share of nothing has got something")
	}
}
