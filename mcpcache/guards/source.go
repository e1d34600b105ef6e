package guards

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
)

const (
	// longestLife caps the life of a token. A server that claims ten years is
	// not trusted that far: keys rotate and accounts are closed.
	longestLife = 24 * time.Hour

	// longestMargin is how long before its end a token is used no more, at
	// most; it is a tenth of the life of shorter-lived tokens. A request that
	// is sent now still has to reach the upstream.
	longestMargin = 30 * time.Second

	// longestFlight bounds one attempt to get a token with all its requests.
	longestFlight = 2 * time.Minute

	// longestRetryAfter bounds what a server can ask for with Retry-After.
	longestRetryAfter = 5 * time.Minute
)

// issued is a token with its end of life.
type issued struct {
	token   string
	expires time.Time // zero: unknown, used until it is refused
}

// tokenSource holds the current token of a guard. It gets a new one when it is
// asked and has none, and in the background some time before the old one ends,
// if that one was used at all. There is one request for a token at a time, which
// all callers share; after a failure there is none until a backoff has passed or
// the inputs have changed.
//
// It has no goroutine while it waits; close ends those that fetch.
type tokenSource struct {
	fetch  func(context.Context) (issued, error)
	log    *zap.Logger
	inputs func() uint64 // version of the files that fetch reads, nil: none
	strict bool          // whether other inputs make the current token useless

	ctx    context.Context // of all fetches, ended by close
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu       sync.Mutex
	current  issued
	usable   time.Time // end of current's use, zero: no end
	wanted   bool      // whether anybody asked since the last renewal
	flight   *flight   // the request under way
	tried    uint64    // inputs of the last flight
	timer    *time.Timer
	closed   bool
	failure  error     // of the last flight
	retryAt  time.Time // after a failure, no flight before
	retries  *backoff.ExponentialBackOff
	refused  time.Time // when a refusal last cost a renewal
	renewAt  time.Time // after a refusal, no other renewal before
	refusals *backoff.ExponentialBackOff
}

// flight is one request for a token and what came of it.
type flight struct {
	done  chan struct{}
	token string
	err   error
}

var (
	errClosed   = errors.New("guard has been shut down")
	errPanicked = errors.New("fetching a token panicked")
)

const (
	errSameToken    = unusable("the new token is the one that the upstream refused")
	errRefusedAgain = unusable("the upstream refused the renewed token, too")
	errExpired      = unusable("the new token has already expired")
)

// newTokenSource makes a source that asks fetch for tokens. fetch must return
// soon after its context has ended, and its errors must hold no secret.
func newTokenSource(fetch func(context.Context) (issued, error), log *zap.Logger) *tokenSource {
	s := &tokenSource{fetch: fetch, log: log}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.retries = newBackOff(time.Second, time.Minute)
	s.refusals = newBackOff(time.Second, 5*time.Minute)
	return s
}

func newBackOff(first, longest time.Duration) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval:     first,
		MaxInterval:         longest,
		Multiplier:          2,
		RandomizationFactor: 0.3,
	}
}

// close ends what runs in the background. A token that is still good is handed
// out until it ends. It may be called again.
func (s *tokenSource) close() {
	s.mu.Lock()
	s.closed = true
	s.cancel()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.group.Wait()
}

// get returns a token that is good for now. If there is none it waits for one,
// no longer than ctx lasts; while it backs off it returns the last failure.
func (s *tokenSource) get(ctx context.Context) (string, error) {
	s.mu.Lock()
	s.wanted = true
	if s.good() {
		defer s.mu.Unlock()
		return s.current.token, nil
	}
	f, err := s.launch()
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	return f.wait(ctx)
}

// renew returns nil once get would return a token that refused does not know,
// at once if it already would. A refused token is replaced once; if its
// successor is refused too, the time until the next try doubles each time.
func (s *tokenSource) renew(ctx context.Context, refused func(token string) bool) error {
	s.mu.Lock()
	s.wanted = true
	if s.good() {
		if !refused(s.current.token) {
			s.mu.Unlock()
			return nil
		}
		if err := s.drop(); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	f, err := s.launch()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	token, err := f.wait(ctx)
	if err != nil {
		return err
	}
	if refused(token) {
		return errSameToken
	}
	return nil
}

// drop gives up a refused token unless its predecessor was refused just now.
func (s *tokenSource) drop() error {
	if s.flight != nil {
		return nil // its successor is on the way
	}
	now := time.Now()
	if now.Before(s.renewAt) {
		return errRefusedAgain
	}
	if now.Sub(s.refused) > s.refusals.MaxInterval {
		s.refusals.Reset()
	}
	s.refused, s.renewAt = now, now.Add(s.refusals.NextBackOff())
	s.current = issued{}
	return nil
}

func (s *tokenSource) good() bool {
	return s.current.token != "" &&
		(s.usable.IsZero() || time.Now().Before(s.usable)) &&
		(!s.strict || !s.changed())
}

// changed tells whether the inputs are others than those of the last flight.
func (s *tokenSource) changed() bool { return s.inputs != nil && s.inputs() != s.tried }

// launch joins the flight under way or starts one. Called with mu held.
func (s *tokenSource) launch() (*flight, error) {
	switch {
	case s.closed:
		return nil, errClosed
	case s.flight != nil:
		return s.flight, nil
	case time.Now().Before(s.retryAt) && !s.changed():
		return nil, s.failure
	}
	if s.inputs != nil {
		s.tried = s.inputs()
	}
	f := &flight{done: make(chan struct{})}
	s.flight = f
	s.group.Go(func() {
		start := time.Now()
		got, err := s.attempt()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.land(f, start, got, err)
	})
	return f, nil
}

// attempt calls fetch and turns a panic, whose value might hold a secret, into
// an error.
func (s *tokenSource) attempt() (got issued, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("fetching a token panicked",
				zap.String("panic", fmt.Sprintf("%T", p)), zap.ByteString("stack", debug.Stack()))
			got, err = issued{}, errPanicked
		}
	}()
	ctx, cancel := context.WithTimeout(s.ctx, longestFlight)
	defer cancel()
	return s.fetch(ctx)
}

// land takes in what came of a flight and wakes those who wait for it.
func (s *tokenSource) land(f *flight, start time.Time, got issued, err error) {
	defer close(f.done)
	s.flight = nil
	if err == nil && !got.expires.IsZero() && !got.expires.After(time.Now()) {
		err = errExpired
	}
	if err != nil {
		f.err = err
		s.fail(err)
		return
	}
	f.token = got.token
	if s.failure != nil {
		s.log.Info("got a token again")
	}
	s.failure, s.retryAt = nil, time.Time{}
	s.retries.Reset()
	s.adopt(start, got)
}

// adopt makes a token the current one and plans its renewal. Its life counts
// from before it was asked for.
func (s *tokenSource) adopt(start time.Time, got issued) {
	s.current, s.usable = got, time.Time{}
	if got.expires.IsZero() {
		s.log.Debug("got a token without an end")
		return
	}
	life := got.expires.Sub(start)
	if life > longestLife {
		s.log.Warn("token claims a very long life, renewing it earlier",
			zap.Duration("life", life), zap.Duration("used_for", longestLife))
		life = longestLife
	}
	s.usable = start.Add(life - min(life/10, longestMargin))
	// Between 70 and 85 % of its life: many instances do not renew at once.
	renewal := start.Add(time.Duration(float64(life) * (0.70 + 0.15*rand.Float64())))
	s.log.Debug("got a token", zap.Duration("life", life), zap.Time("renewal", renewal))
	s.plan(time.Until(renewal), func() bool { return s.wanted })
}

// fail plans another try. Only a change of state is worth a warning.
func (s *tokenSource) fail(err error) {
	if s.closed {
		return
	}
	delay := s.retries.NextBackOff()
	if asked, ok := errors.AsType[*retryAfterError](err); ok {
		delay = max(delay, min(asked.after, longestRetryAfter))
	}
	s.retries.MaxInterval = time.Minute
	if errors.As(err, new(*refusal)) {
		// Servers lock accounts that try in vain too often.
		s.retries.MaxInterval = 5 * time.Minute
	}
	level := zap.DebugLevel
	if s.failure == nil || errors.Is(s.failure, ErrUnauthorized) != errors.Is(err, ErrUnauthorized) {
		level = zap.WarnLevel
	}
	s.log.Log(level, "cannot get a token", zap.Error(err), zap.Duration("retry_in", delay))
	s.failure, s.retryAt = err, time.Now().Add(delay)
	s.plan(delay, func() bool { return true })
}

// plan starts a flight after a delay, unless the condition fails by then.
func (s *tokenSource) plan(delay time.Duration, still func() bool) {
	if s.closed {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(delay, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.due(timer, still)
	})
	s.timer = timer
}

// due is what a timer does when it fires. One that was replaced just then, while
// it waited for the lock, does nothing. Called with mu held.
func (s *tokenSource) due(timer *time.Timer, still func() bool) {
	if timer == s.timer && still() {
		s.wanted = false
		_, _ = s.launch() // whoever needs the token meets the error in get
	}
}

// wait returns what came of the flight, or an error when ctx ends first.
func (f *flight) wait(ctx context.Context) (string, error) {
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for a token: %w", ctx.Err())
	}
}

// retryAfterError is a failure for which the server has said when to come back.
type retryAfterError struct {
	err   error
	after time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }
