// Package tokensource keeps a guard's token. It asks for a token when the guard needs one, and
// renews the token before its end. All who wait share one request. After a failure it waits before
// it asks again.
//
// It knows nothing of how a token is made.
package tokensource

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

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/credential"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
)

const (
	// LongestLife caps the life of a token. A server that claims ten years is
	// not trusted that far: keys rotate and accounts are closed.
	LongestLife = 24 * time.Hour

	// longestMargin is how long before its end a token is used no more, at
	// most; it is a tenth of the life of shorter-lived tokens. A request that
	// is sent now still has to reach the upstream.
	longestMargin = 30 * time.Second

	// longestFetch bounds one attempt to get a token with all its requests.
	longestFetch = 2 * time.Minute

	// longestRetryAfter bounds what a server can ask for with Retry-After.
	longestRetryAfter = 5 * time.Minute
)

// Token is a token with its end of life.
type Token struct {
	Value   string
	Expires time.Time // zero: unknown, used until it is refused
}

// Source holds the current token of a guard. It gets a new one when it is
// asked and has none, and in the background some time before the old one ends,
// if that one was used at all. There is one request for a token at a time, which
// all callers share; after a failure there is none until a backoff has passed or
// the inputs have changed.
//
// It has no goroutine while it waits; Close ends those that fetch. The exported
// fields are set before the first use.
type Source struct {
	Log    *zap.Logger
	Inputs func() uint64 // version of the files that fetch reads, nil: none
	Strict bool          // whether other inputs make the current token useless

	fetch  func(context.Context) (Token, error)
	ctx    context.Context // of all fetches, ended by Close
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu       sync.Mutex
	current  Token
	usable   time.Time              // end of current's use, zero: no end
	wanted   bool                   // whether anybody asked since the last renewal
	fetching *flight.Flight[string] // the request under way
	tried    uint64                 // inputs of the last fetch
	timer    *time.Timer
	closed   bool
	failure  error     // of the last fetch
	retryAt  time.Time // after a failure, no fetch before
	retries  *backoff.ExponentialBackOff
	refused  time.Time // when a refusal last cost a renewal
	renewAt  time.Time // after a refusal, no other renewal before
	refusals *backoff.ExponentialBackOff
}

var (
	// ErrClosed is the error of a source that has no token and may get no more.
	ErrClosed = errors.New("guard has been shut down")

	// ErrRefused is what errors of fetch are (errors.Is) that another try does
	// not change: the server knows the client and refuses it.
	ErrRefused = errors.New("the server refuses the client")

	errPanicked = errors.New("fetching a token panicked")
)

const (
	// ErrExpired is the error of a token that has no life left.
	ErrExpired = credential.UnusableError("the new token has already expired")

	errSameToken    = credential.UnusableError("the new token is the one that the upstream refused")
	errRefusedAgain = credential.UnusableError("the upstream refused the renewed token, too")
)

// New makes a source that asks fetch for tokens. fetch must return
// soon after its context has ended, and its errors must hold no secret.
func New(fetch func(context.Context) (Token, error), log *zap.Logger) *Source {
	s := &Source{fetch: fetch, Log: log}
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

// Close ends what runs in the background. A token that is still good is handed
// out until it ends. It may be called again.
func (s *Source) Close() {
	s.mu.Lock()
	s.closed = true
	s.cancel()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.group.Wait()
}

// Get returns a token that is good for now. If there is none it waits for one,
// no longer than ctx lasts; while it backs off it returns the last failure.
func (s *Source) Get(ctx context.Context) (string, error) {
	s.mu.Lock()
	s.wanted = true
	if s.good() {
		defer s.mu.Unlock()
		return s.current.Value, nil
	}
	f, err := s.begin()
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	return await(ctx, f)
}

// Renew returns nil once Get would return a token that refused does not know,
// at once if it already would. A refused token is replaced once; if its
// successor is refused too, the time until the next try doubles each time.
func (s *Source) Renew(ctx context.Context, refused func(token string) bool) error {
	s.mu.Lock()
	s.wanted = true
	if s.good() {
		if !refused(s.current.Value) {
			s.mu.Unlock()
			return nil
		}
		if err := s.drop(); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	f, err := s.begin()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	token, err := await(ctx, f)
	if err != nil {
		return err
	}
	if refused(token) {
		return errSameToken
	}
	return nil
}

// drop gives up a refused token unless its predecessor was refused just now.
func (s *Source) drop() error {
	if s.fetching != nil {
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
	s.current = Token{}
	return nil
}

func (s *Source) good() bool {
	return s.current.Value != "" &&
		(s.usable.IsZero() || time.Now().Before(s.usable)) &&
		(!s.Strict || !s.changed())
}

// changed tells whether the inputs are others than those of the last fetch.
func (s *Source) changed() bool { return s.Inputs != nil && s.Inputs() != s.tried }

// begin joins the fetch under way or starts one. Called with mu held.
func (s *Source) begin() (*flight.Flight[string], error) {
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.fetching != nil:
		return s.fetching, nil
	case time.Now().Before(s.retryAt) && !s.changed():
		return nil, s.failure
	}
	if s.Inputs != nil {
		s.tried = s.Inputs()
	}
	f := flight.New[string]()
	s.fetching = f
	s.group.Go(func() {
		start := time.Now()
		got, err := s.attempt()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.takeResult(f, start, got, err)
	})
	return f, nil
}

// attempt calls fetch and turns a panic, whose value might hold a secret, into
// an error.
func (s *Source) attempt() (got Token, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("fetching a token panicked",
				zap.String("panic", fmt.Sprintf("%T", p)), zap.ByteString("stack", debug.Stack()))
			got, err = Token{}, errPanicked
		}
	}()
	ctx, cancel := context.WithTimeout(s.ctx, longestFetch)
	defer cancel()
	return s.fetch(ctx)
}

// takeResult takes in what came of a fetch and wakes those who wait for it.
func (s *Source) takeResult(f *flight.Flight[string], start time.Time, got Token, err error) {
	s.fetching = nil
	if err == nil && !got.Expires.IsZero() && !got.Expires.After(time.Now()) {
		err = ErrExpired
	}
	if err != nil {
		defer f.Land("", err)
		s.fail(err)
		return
	}
	defer f.Land(got.Value, nil)
	if s.failure != nil {
		s.Log.Info("got a token again")
	}
	s.failure, s.retryAt = nil, time.Time{}
	s.retries.Reset()
	s.use(start, got)
}

// use makes a token the current one and plans its renewal. Its life counts
// from before it was asked for.
func (s *Source) use(start time.Time, got Token) {
	s.current, s.usable = got, time.Time{}
	if got.Expires.IsZero() {
		s.Log.Debug("got a token without an end")
		return
	}
	life := got.Expires.Sub(start)
	if life > LongestLife {
		s.Log.Warn("token claims a very long life, renewing it earlier",
			zap.Duration("life", life), zap.Duration("used_for", LongestLife))
		life = LongestLife
	}
	s.usable = start.Add(life - min(life/10, longestMargin))
	// Between 70 and 85 % of its life: many instances do not renew at once.
	renewal := start.Add(time.Duration(float64(life) * (0.70 + 0.15*rand.Float64())))
	s.Log.Debug("got a token", zap.Duration("life", life), zap.Time("renewal", renewal))
	s.plan(time.Until(renewal), func() bool { return s.wanted })
}

// fail plans another try. Only a change of state is worth a warning.
func (s *Source) fail(err error) {
	if s.closed {
		return
	}
	delay := s.retries.NextBackOff()
	if asked, ok := errors.AsType[*RetryAfterError](err); ok {
		delay = max(delay, min(asked.After, longestRetryAfter))
	}
	s.retries.MaxInterval = time.Minute
	if errors.Is(err, ErrRefused) {
		// Servers lock accounts that try in vain too often.
		s.retries.MaxInterval = 5 * time.Minute
	}
	level := zap.DebugLevel
	if s.failure == nil || errors.Is(s.failure, guards.ErrUnauthorized) != errors.Is(err, guards.ErrUnauthorized) {
		level = zap.WarnLevel
	}
	s.Log.Log(level, "cannot get a token", zap.Error(err), zap.Duration("retry_in", delay))
	s.failure, s.retryAt = err, time.Now().Add(delay)
	s.plan(delay, func() bool { return true })
}

// plan starts a fetch after a delay, unless the condition fails by then.
func (s *Source) plan(delay time.Duration, still func() bool) {
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
func (s *Source) due(timer *time.Timer, still func() bool) {
	if timer == s.timer && still() {
		s.wanted = false
		_, _ = s.begin() // whoever needs the token meets the error in Get
	}
}

// await returns the token that a request brings, or an error when ctx ends first.
func await(ctx context.Context, f *flight.Flight[string]) (string, error) {
	token, err := f.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		return "", fmt.Errorf("waiting for a token: %w", err)
	}
	return token, err
}

// RetryAfterError is a failure for which the server has said when to come back.
type RetryAfterError struct {
	Err   error
	After time.Duration
}

func (e *RetryAfterError) Error() string { return e.Err.Error() }
func (e *RetryAfterError) Unwrap() error { return e.Err }
