package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
)

// patient is a handler that writes an answer in parts, one each step, and
// tells how it ended. It stops when its request is cancelled.
type patient struct {
	parts  int
	step   time.Duration
	done   chan struct{}
	failed error // of a write
	ctxErr error // of the request, when it had written all
}

func (p *patient) serve(w http.ResponseWriter, r *http.Request) error {
	defer close(p.done)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	for range p.parts {
		select {
		case <-time.After(p.step):
		case <-r.Context().Done():
			p.ctxErr = r.Context().Err()
			return p.ctxErr
		}
		if _, err := io.WriteString(w, "data: part\n\n"); err != nil {
			p.failed = err
			return err
		}
	}
	p.ctxErr = r.Context().Err()
	return nil
}

// The rest of an answer that nobody reads is taken in, because reverse_proxy
// takes anything else for an accident; but not for long, and not of a stream.
func TestAbandonedAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		method string
		stream bool
		parts  int
		step   time.Duration
		by     func(res *http.Response, cancel context.CancelFunc)
		// ends is when the handler ends, after the answer was abandoned.
		ends      time.Duration
		cancelled bool
	}{
		"body closed":             {http.MethodPost, false, 5, linger / 10, closeRes, linger / 2, false},
		"body closed twice":       {http.MethodPost, false, 5, linger / 10, closeTwice, linger / 2, false},
		"request cancelled":       {http.MethodPost, false, 5, linger / 10, cancelReq, linger / 2, false},
		"closed and cancelled":    {http.MethodPost, false, 5, linger / 10, closeAndCancel, linger / 2, false},
		"it goes on for too long": {http.MethodPost, false, 1000, linger / 3, closeRes, linger, true},
		"silent for too long":     {http.MethodPost, false, 1, time.Hour, closeRes, linger, true},
		"stream closed":           {http.MethodPost, true, 1000, linger / 10, closeRes, 0, true},
		"stream cancelled":        {http.MethodPost, true, 1000, linger / 10, cancelReq, 0, true},
		"GET closed":              {http.MethodGet, false, 1000, linger / 10, closeRes, 0, true},
		"GET cancelled":           {http.MethodGet, false, 1000, linger / 10, cancelReq, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.stream {
					ctx = requesthint.WithStream(ctx)
				}
				p := &patient{parts: tt.parts, step: tt.step, done: make(chan struct{})}
				res, err := through(handler(p.serve)).RoundTrip(newRequest(ctx, t, tt.method, endpoint, ""))
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				tt.by(res, cancel)
				if _, err := res.Body.Read(make([]byte, 1)); tt.by != nil && err == nil {
					t.Error("an abandoned body can be read")
				}
				<-p.done
				if got := time.Since(begun); got != tt.ends {
					t.Errorf("the handler ended after %v, want %v", got, tt.ends)
				}
				if p.failed != nil || (p.ctxErr != nil) != tt.cancelled {
					t.Errorf("writing failed with %v, the request ended with %v", p.failed, p.ctxErr)
				}
			})
		})
	}
}

func closeRes(res *http.Response, _ context.CancelFunc) { res.Body.Close() }

func closeTwice(res *http.Response, _ context.CancelFunc) { res.Body.Close(); res.Body.Close() }

func cancelReq(_ *http.Response, cancel context.CancelFunc) { cancel(); synctest.Wait() }

func closeAndCancel(res *http.Response, cancel context.CancelFunc) { res.Body.Close(); cancel() }

// A handler that does not look at its request ends all the same.
func TestAbandonedHandlerThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		res := post(t.Context(), t, through(handler(func(w http.ResponseWriter, _ *http.Request) error {
			for {
				if _, err := io.WriteString(w, "more"); err != nil {
					failed <- err
					return err
				}
				time.Sleep(linger / 10)
			}
		})))
		begun := time.Now()
		res.Body.Close()
		if err := <-failed; !errors.Is(err, context.Canceled) || time.Since(begun) > linger+linger/10 {
			t.Errorf("writing failed with %v after %v", err, time.Since(begun))
		}
	})
}

func TestCancelledBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		rt := through(handler(func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			ended <- r.Context().Err()
			return r.Context().Err()
		}))
		body := &closable{}
		req := newRequest(ctx, t, http.MethodPost, endpoint, "")
		req.Body = body
		time.AfterFunc(time.Minute, func() { cancel(errBroken) })
		if _, err := rt.RoundTrip(req); !errors.Is(err, errBroken) {
			t.Errorf("got error %v, want %v", err, errBroken)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler's request ended with %v", err)
		}
		synctest.Wait()
		if !body.isClosed() {
			t.Error("the request body is not closed")
		}
	})
}

// A handler that has returned leaves nothing that could cancel a later one.
func TestAnswerReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var request context.Context
		res := post(ctx, t, through(handler(func(w http.ResponseWriter, r *http.Request) error {
			request = r.Context()
			_, err := io.Copy(w, strings.NewReader("all of it"))
			return err
		})))
		if got, err := readAll(res); got != "all of it" || err != nil {
			t.Errorf("got %q, error %v", got, err)
		}
		synctest.Wait()
		if request.Err() == nil {
			t.Error("the handler's context is left open")
		}
		cancel()
	})
}
