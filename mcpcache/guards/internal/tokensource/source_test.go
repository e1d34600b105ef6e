package tokensource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/guardtest"
)

// Five minutes of load with tokens that live three seconds.
func TestSourceUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mint{life: 3 * time.Second, delay: 50 * time.Millisecond}
		s, _ := newSource(t, m)
		used := make(map[string]bool)
		for start := time.Now(); time.Since(start) < 5*time.Minute; time.Sleep(20 * time.Millisecond) {
			token, err := s.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !time.Now().Before(m.end(token)) {
				t.Fatalf("%s was handed out after its end", token)
			}
			used[token] = true
		}
		if m.fetches() > len(used)+1 {
			t.Errorf("%d tokens fetched, %d used", m.fetches(), len(used))
		}
	})
}

func TestSourceRenewsInTheBackgroundWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delays := make(map[time.Duration]bool)
		for range 20 {
			m := &mint{life: 100 * time.Second}
			s, _ := newSource(t, m)
			start := time.Now()
			wantToken(t, s, "token-1")
			for m.fetches() == 1 {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
			delay := time.Since(start)
			if delay < 70*time.Second || delay > 86*time.Second {
				t.Errorf("renewed after %v of 100s", delay)
			}
			delays[delay] = true
			wantToken(t, s, "token-2")
			s.Close()
		}
		if len(delays) < 5 {
			t.Errorf("%d different delays of 20: no jitter", len(delays))
		}
	})
}

func TestSourceLetsAnUnusedTokenLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mint{life: time.Minute}
		s, _ := newSource(t, m)
		wantToken(t, s, "token-1")
		time.Sleep(time.Hour)
		if n := m.fetches(); n > 2 {
			t.Errorf("%d tokens for one use", n)
		}
		if _, err := s.Get(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSourceSharesOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mint{life: time.Minute, delay: time.Second}
		s, _ := newSource(t, m)
		var group sync.WaitGroup
		for range 200 {
			group.Go(func() {
				if token, err := s.Get(t.Context()); err != nil || token != "token-1" {
					t.Errorf("Get() = %q, %v", token, err)
				}
			})
		}
		group.Wait()
		for range 200 {
			group.Go(func() {
				if err := s.Renew(t.Context(), is("token-1")); err != nil {
					t.Error(err)
				}
				wantToken(t, s, "token-2")
			})
		}
		group.Wait()
		if err := s.Renew(t.Context(), is("token-1")); err != nil {
			t.Error("late renewal:", err)
		}
		if n := m.fetches(); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
	})
}

func TestSourceCallersKeepTheirOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mint{life: time.Minute, delay: 10 * time.Second}
		s, _ := newSource(t, m)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("impatient caller: %v", err)
		}
		wantToken(t, s, "token-1")
		if n := m.fetches(); n != 1 {
			t.Errorf("%d fetches: the fetch ended with its first caller", n)
		}
	})
}

func TestSourceBacksOffQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mint{life: time.Hour, err: errors.New("endpoint is down")}
		s, logs := newSource(t, m)
		for start := time.Now(); time.Since(start) < 10*time.Minute; time.Sleep(100 * time.Millisecond) {
			if _, err := s.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "down") {
				t.Fatalf("error while down: %v", err)
			}
		}
		// 1, 2, 4 … 60, 60: about 15 tries in ten minutes.
		if n := m.fetches(); n < 8 || n > 25 {
			t.Errorf("%d tries in 10 minutes", n)
		}
		if n := logs.FilterLevelExact(zapcore.WarnLevel).Len(); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		m.set(nil)
		before := m.fetches()
		time.Sleep(80 * time.Second) // longer than the longest backoff
		if m.fetches() != before+1 {
			t.Error("did not recover by itself")
		}
		if _, err := s.Get(t.Context()); err != nil {
			t.Error("after the recovery:", err)
		}
		if n := logs.FilterMessage("got a token again").Len(); n != 1 {
			t.Errorf("%d notes of the recovery, want 1", n)
		}
	})
}

func TestSourceKeepsAGoodTokenWhileTheEndpointIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mint{life: 100 * time.Second}
		s, _ := newSource(t, m)
		wantToken(t, s, "token-1")
		m.set(errors.New("down"))
		time.Sleep(89 * time.Second)
		wantToken(t, s, "token-1")
		time.Sleep(2 * time.Second)
		if _, err := s.Get(t.Context()); err == nil {
			t.Error("an expiring token was handed out")
		}
	})
}

func TestSourceHonoursRetryAfter(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		40 * time.Second: 40 * time.Second,
		10 * time.Hour:   longestRetryAfter,
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &mint{err: &RetryAfterError{Err: errors.New("busy"), After: asked}}
			s, _ := newSource(t, m)
			_, _ = s.Get(t.Context())
			time.Sleep(want - time.Second)
			if _, err := s.Get(t.Context()); err == nil || m.fetches() != 1 {
				t.Errorf("%v, %d fetches before the server wants any", err, m.fetches())
			}
			time.Sleep(2 * time.Second)
			if m.fetches() != 2 {
				t.Errorf("%d fetches after the time the server asked for", m.fetches())
			}
		})
	}
}

// When the successors of a refused token are refused as well, the requests for
// tokens become rare.
func TestSourceRefusedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mint{life: time.Hour}
		s, _ := newSource(t, m)
		refusals := 0
		for start := time.Now(); time.Since(start) < 10*time.Minute; time.Sleep(100 * time.Millisecond) {
			token, err := s.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Renew(t.Context(), is(token)); err != nil {
				if !errors.Is(err, guards.ErrUnauthorized) {
					t.Fatal(err)
				}
				refusals++
			}
		}
		if n := m.fetches(); n < 5 || n > 20 {
			t.Errorf("%d fetches in ten minutes of refusals", n)
		}
		if refusals == 0 {
			t.Error("no refusal was reported")
		}
		time.Sleep(30 * time.Minute)
		token, _ := s.Get(t.Context())
		if err := s.Renew(t.Context(), is(token)); err != nil {
			t.Errorf("a refusal long after: %v", err)
		}
	})
}

func TestSourceSameTokenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(func(context.Context) (Token, error) {
			return Token{Value: "same"}, nil
		}, zap.NewNop())
		defer s.Close()
		wantToken(t, s, "same")
		if err := s.Renew(t.Context(), is("same")); !errors.Is(err, guards.ErrUnauthorized) {
			t.Errorf("renewal gave the refused token: %v", err)
		}
	})
}

func TestSourceOddLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forever := &mint{life: 10 * 365 * 24 * time.Hour}
		s, logs := newSource(t, forever)
		wantToken(t, s, "token-1")
		if logs.FilterLevelExact(zapcore.WarnLevel).Len() != 1 {
			t.Error("a life of ten years passed without a warning")
		}
		time.Sleep(LongestLife)
		wantToken(t, s, "token-2")

		unknown := &mint{}
		s, _ = newSource(t, unknown)
		wantToken(t, s, "token-1")
		time.Sleep(30 * 24 * time.Hour)
		wantToken(t, s, "token-1")

		born := &mint{life: -time.Second}
		s, _ = newSource(t, born)
		if _, err := s.Get(t.Context()); !errors.Is(err, guards.ErrUnauthorized) || !strings.Contains(err.Error(), "already expired") {
			t.Errorf("expired at birth: %v", err)
		}
	})
}

func TestSourceInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version := uint64(1)
		m := &mint{life: time.Hour}
		s, _ := newSource(t, m)
		s.Inputs = func() uint64 { return version }
		wantToken(t, s, "token-1")
		version++
		wantToken(t, s, "token-1")
		s.Strict = true
		wantToken(t, s, "token-2")
		wantToken(t, s, "token-2")

		failing := &mint{err: errors.New("bad input")}
		s, _ = newSource(t, failing)
		s.Inputs = func() uint64 { return version }
		_, _ = s.Get(t.Context())
		_, _ = s.Get(t.Context())
		if n := failing.fetches(); n != 1 {
			t.Errorf("%d fetches with the same bad input", n)
		}
		failing.set(nil)
		version++
		wantToken(t, s, "token-2")
	})
}

func TestSourceSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		s := New(func(context.Context) (Token, error) { panic(guardtest.Planted) }, zap.New(core))
		defer s.Close()
		if _, err := s.Get(t.Context()); !errors.Is(err, errPanicked) {
			t.Errorf("Get() = %v", err)
		}
		for _, entry := range logs.All() {
			if strings.Contains(fmt.Sprint(entry.Message, entry.ContextMap()), guardtest.Planted) {
				t.Errorf("the log shows the panic's value: %v", entry)
			}
		}
	})
}

// A timer that has fired, but waits for the lock while another fetch ends and
// plans anew, costs no second request for the same expiry.
func TestSourceReplacedTimerDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mint{life: time.Minute}
		s, _ := newSource(t, m)
		defer s.Close()
		wantToken(t, s, "token-1")
		always := func() bool { return true }
		fired := s.timer
		s.mu.Lock()
		s.plan(time.Hour, always)
		s.due(fired, always)
		s.mu.Unlock()
		synctest.Wait()
		if n := m.fetches(); n != 1 {
			t.Errorf("%d tokens fetched, want the first alone", n)
		}
		s.mu.Lock()
		s.due(s.timer, always)
		s.mu.Unlock()
		synctest.Wait()
		if n := m.fetches(); n != 2 {
			t.Errorf("the timer in use fetched %d tokens", n-1)
		}
	})
}

func TestSourceClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mint{life: time.Minute}
		s, _ := newSource(t, m)
		wantToken(t, s, "token-1")
		s.Close()
		s.Close()
		wantToken(t, s, "token-1")
		time.Sleep(time.Hour)
		if _, err := s.Get(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		if m.fetches() != 1 {
			t.Error("a closed source fetched a token")
		}

		slow := &mint{delay: time.Hour}
		s, logs := newSource(t, slow)
		failed := make(chan error)
		go func() {
			_, err := s.Get(t.Context())
			failed <- err
		}()
		synctest.Wait()
		go s.Close()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("closed while waiting: %v", err)
		}
		if logs.Len() != 0 {
			t.Errorf("shutting down was logged: %v", logs.All())
		}
	})
}
