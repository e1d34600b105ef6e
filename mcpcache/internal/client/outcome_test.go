package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// begun is a handler that begins an answer and goes on with rest.
func begun(rest func(w http.ResponseWriter, r *http.Request) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := io.WriteString(w, ": begun\n\n"); err != nil {
			return err
		}
		return rest(w, r)
	}
}

func hang(_ http.ResponseWriter, r *http.Request) error {
	<-r.Context().Done()
	return r.Context().Err()
}

func TestOutcome(t *testing.T) {
	for name, tt := range map[string]struct {
		rest handler
		want error
	}{
		"all is well":     {func(http.ResponseWriter, *http.Request) error { return nil }, nil},
		"handler fails":   {func(http.ResponseWriter, *http.Request) error { return errBroken }, errBroken},
		"handler aborts":  {func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }, http.ErrAbortHandler},
		"time is up":      {hang, context.DeadlineExceeded},
		"event too large": {func(w http.ResponseWriter, _ *http.Request) error { _, err := w.Write(make([]byte, 2000)); return err }, ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, outcome := withOutcome(t.Context())
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				res := post(ctx, t, limited(1000, begun(tt.rest)))
				_, err := readAll(res)
				for what, got := range map[string]error{"error": err, "outcome": outcome.Err()} {
					if tt.want == nil && got != nil || !errors.Is(got, tt.want) {
						t.Errorf("the %s is %v, want %v", what, got, tt.want)
					}
				}
				time.Sleep(time.Second) // for what the handler may go on
			})
		})
	}
}

func TestOutcomeKeepsTheFirstFailure(t *testing.T) {
	_, o := withOutcome(t.Context())
	if o.Err() != nil {
		t.Errorf("a new outcome is %v", o.Err())
	}
	o.set(errBroken)
	o.set(io.ErrUnexpectedEOF)
	if !errors.Is(o.Err(), errBroken) {
		t.Errorf("got %v, want %v", o.Err(), errBroken)
	}
	outcomeOf(t.Context()).set(errBroken) // a request without one must not mind
}

func TestIdleTimeout(t *testing.T) {
	const idle = time.Minute
	alive := func(w http.ResponseWriter, r *http.Request) error {
		for range 10 {
			time.Sleep(idle - time.Second)
			if _, err := fmt.Fprint(w, ":\n\n"); err != nil {
				return err
			}
		}
		return hang(w, r)
	}
	for name, tt := range map[string]struct {
		serve handler
		after time.Duration // 0: never
	}{
		"silent from the start": {hang, idle},
		"silent after a byte":   {begun(hang), idle},
		"kept alive for long":   {begun(alive), 10*(idle-time.Second) + idle},
		"late, then silent": {func(w http.ResponseWriter, r *http.Request) error {
			time.Sleep(idle - time.Second)
			return begun(hang)(w, r)
		}, 2*idle - time.Second},
		"ends in time": {begun(func(http.ResponseWriter, *http.Request) error { return nil }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, outcome := withOutcome(withIdleTimeout(t.Context(), idle))
				begun := time.Now()
				res, err := limited(1000, tt.serve).RoundTrip(newRequest(ctx, t, http.MethodGet, endpoint, ""))
				if err == nil {
					_, err = readAll(res)
				}
				if got := time.Since(begun); errors.Is(err, errIdle) != (tt.after != 0) || got != tt.after {
					t.Errorf("got error %v after %v, outcome %v", err, got, outcome.Err())
				}
				time.Sleep(2 * idle) // a timer left over would fire
				if tt.after == 0 && outcome.Err() != nil {
					t.Errorf("the outcome became %v", outcome.Err())
				}
			})
		})
	}
}

// A failure whose body never ends is a failure still.
func TestIdleError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := limited(1000, func(w http.ResponseWriter, r *http.Request) error {
			w.WriteHeader(http.StatusServiceUnavailable)
			return hang(w, r)
		}).RoundTrip(newRequest(withIdleTimeout(t.Context(), time.Minute), t, http.MethodGet, endpoint, ""))
		status, ok := errors.AsType[*StatusError](err)
		if !ok || status.Status != http.StatusServiceUnavailable || time.Since(begun) != time.Minute {
			t.Errorf("got error %v after %v", err, time.Since(begun))
		}
	})
}

// Without an idle timeout a silent answer has only its own deadline.
func TestNoIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := readAll(post(ctx, t, limited(1000, begun(hang)))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
		time.Sleep(time.Second)
	})
}
