package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestProgressIsShownUntilReady follows a handler that hydrates.
func TestProgressIsShownUntilReady(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		want     string
	}{
		"terminal": {true, "\r\x1b[KFeeds: 2026-07-28 hydrating\r\x1b[KFeeds: 2026-07-28 ready, tools 1\n"},
		"file":     {false, "Feeds: 2026-07-28 hydrating\nFeeds: 2026-07-28 ready, tools 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := reporttest.New(t, "progress")
				reporttest.GoLive(t, source)
				source.Server.Set("tools/list", "a")
				hold := make(chan struct{})
				source.Server.Hold(hold)
				source.Feeds().Start(revision.LatestModern)
				synctest.Wait()
				var out strings.Builder
				done := make(chan struct{})
				go func() {
					defer close(done)
					showProgress(t.Context(), &out, c.terminal, zap.NewNop(), guide{})
				}()
				time.Sleep(10*progressPause + progressPause/2) // between two looks
				close(hold)
				<-done
				if out.String() != c.want {
					t.Errorf("got %q, want %q", out.String(), c.want)
				}
			})
		})
	}
}

func TestProgressEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := reporttest.New(t, "ended")
		reporttest.GoLive(t, source)
		ctx, cancel := context.WithCancel(t.Context())
		var out strings.Builder
		done := make(chan struct{})
		go func() {
			defer close(done)
			showProgress(ctx, &out, false, zap.NewNop(), guide{})
		}()
		time.Sleep(time.Hour)
		cancel()
		<-done
		if out.String() != "Feeds: starting\n" {
			t.Errorf("got %q", out.String())
		}
	})
}

// TestProgressGoesOnWhileAFeedMay has one feed ready and the other in each of
// its states: whoever waits is told of what comes by itself.
func TestProgressGoesOnWhileAFeedMay(t *testing.T) {
	for state, want := range map[feed.State]bool{
		feed.Connecting: false, feed.Hydrating: false, feed.Degraded: false, feed.Down: false,
		feed.Ready: true, feed.Unsupported: true, feed.NeedsAuthorization: true,
	} {
		status := report.Status{Ready: true, Feeds: []report.Feed{
			{Revision: "2025-11-25", State: feed.Ready}, {Revision: "2026-07-28", State: state},
		}}
		if _, done := progress([]report.Status{status}); done != want {
			t.Errorf("%s: got %t", state, done)
		}
	}
}

// TestProgressSaysWhenNothingAnswers follows a server that takes its time: people
// are told once, and soon.
func TestProgressSaysWhenNothingAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		want  string
	}{
		"in time": {lateAfter, "Feeds: 2026-07-28 connecting\nFeeds: 2026-07-28 ready, tools 1\n"},
		"late":    {4 * lateAfter, "Feeds: 2026-07-28 connecting\nno answer\nFeeds: 2026-07-28 ready, tools 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := reporttest.New(t, "late")
				reporttest.GoLive(t, source)
				source.Server.Set("tools/list", "a")
				mute := make(chan struct{})
				source.Server.Mute(mute)
				source.Feeds().Start(revision.LatestModern)
				synctest.Wait()
				var out strings.Builder
				done := make(chan struct{})
				go func() {
					defer close(done)
					showProgress(t.Context(), &out, false, zap.NewNop(), guide{late: "no answer"})
				}()
				time.Sleep(c.after - progressPause/2) // between two looks
				close(mute)
				<-done
				if out.String() != c.want {
					t.Errorf("got %q, want %q", out.String(), c.want)
				}
			})
		})
	}
}

// legacy answers requests that open a legacy session in a way of its own.
type legacy struct {
	*reporttest.ListServer

	answer func(w http.ResponseWriter, r *http.Request) error
}

func (l legacy) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if strings.Contains(string(body), `"initialize"`) {
		return l.answer(w, r)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return l.ListServer.ServeHTTP(w, r, next)
}

// TestProgressGivesUpOneEra has a server fail in one era while the lists of the other one
// are there: people are told what follows, and what is wrong, once.
func TestProgressGivesUpOneEra(t *testing.T) {
	const asked = "then\nwhy\n"
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request) error
		want   string
	}{
		"fails": {func(http.ResponseWriter, *http.Request) error {
			return caddyhttp.Error(http.StatusBadGateway, errors.New("no upstreams available"))
		}, "Feeds: 2025-11-25 down (connect: no upstreams available), 2026-07-28 ready, tools 1\n" +
			"Feeds: 2025-11-25 not offered, 2026-07-28 ready, tools 1\nthen\n"},
		"is busy": {func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusServiceUnavailable)
			return nil
		}, "Feeds: 2025-11-25 down (connect: answered 503), 2026-07-28 ready, tools 1\n" + asked},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return r.Context().Err()
		}, "Feeds: 2025-11-25 connecting, 2026-07-28 ready, tools 1\n" + asked},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusUnauthorized)
			return nil
		}, "Feeds: 2025-11-25 needs_authorization (connect: answered 401: give the feed a credential, with guard or hea…), 2026-07-28 ready, tools 1\n" + asked},
		"is not there": {func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusNotFound)
			return nil
		}, "Feeds: 2025-11-25 not offered, 2026-07-28 ready, tools 1\nthen\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := reporttest.New(t, "half")
				reporttest.GoLive(t, source)
				source.Server.Set("tools/list", "a")
				source.Through(legacy{source.Server, c.answer})
				source.Feeds().Start(revision.LatestLegacy)
				synctest.Wait()
				source.Feeds().Start(revision.LatestModern)
				synctest.Wait()
				var out strings.Builder
				showProgress(t.Context(), &out, false, zap.NewNop(), guide{
					why: func(context.Context) string { return "why" }, then: func([]report.Status) string { return "then\n" },
				})
				if out.String() != c.want {
					t.Errorf("got %q, want %q", out.String(), c.want)
				}
			})
		})
	}
}

// TestFeedsAreWatched has a server go away and come back: people are told once of
// each, and why.
func TestFeedsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := reporttest.New(t, "watched")
		reporttest.GoLive(t, source)
		source.Server.Set("tools/list", "a")
		source.Feeds().Start(revision.LatestModern)
		synctest.Wait()
		var out sharedText
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			watchFeeds(ctx, &out, zap.NewNop(), func(context.Context) string { return "Trouble" })
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if out.String() != "" {
			t.Errorf("while all is well: %q", out.String())
		}
		mute := make(chan struct{})
		source.Server.Mute(mute)
		time.Sleep(time.Hour)
		close(mute)
		time.Sleep(time.Hour)
		cancel()
		<-done
		first, last, _ := strings.Cut(out.String(), "\n")
		if !strings.HasPrefix(first, "Feeds: 2026-07-28 d") || !strings.HasSuffix(last, "Feeds: 2026-07-28 ready, tools 1\n") ||
			strings.Count(out.String(), "ready") != 1 {
			t.Errorf("it says\n%s", out.String())
		}
	})
}

// sharedText is what one goroutine writes and another reads.
type sharedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *sharedText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *sharedText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
