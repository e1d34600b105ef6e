package toolkit

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestSessionsAwaitSecrets has a request wait for secrets only during the first attempt to load them.
func TestSessionsAwaitSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		settled, tried time.Duration // when
		want           bool
		after          time.Duration
	}{
		"it is there":             {0, 0, true, 0},
		"it comes":                {time.Second, time.Minute, true, time.Second},
		"it could not be loaded":  {time.Minute, 0, false, 0},
		"it can not be loaded":    {time.Minute, time.Second, false, time.Second},
		"nobody knows about that": {time.Minute, time.Minute, false, secretsWithin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closedIn := func(d time.Duration) <-chan struct{} {
					done := make(chan struct{})
					time.AfterFunc(d, func() { close(done) })
					return done
				}
				e := &Endpoint{Settings: Settings{Settled: closedIn(c.settled), Tried: closedIn(c.tried)}}
				synctest.Wait()
				v, began := &visit{endpoint: e, r: httptest.NewRequest("POST", "/mcp", nil)}, time.Now()
				if got, took := v.awaitSealer(secretsWithin), time.Since(began); got != c.want || took != c.after {
					t.Errorf("got %v after %v, want %v after %v", got, took, c.want, c.after)
				}
			})
		})
	}
}
