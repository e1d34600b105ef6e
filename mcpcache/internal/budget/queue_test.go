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
