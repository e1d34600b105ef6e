package caddytest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// FeedReport is what the admin API tells of a feed.
type FeedReport struct {
	Revision string
	State    string
	Failure  struct{ Stage, Message string } `json:"last_failure"`
}

// Feeds returns the feeds of the only handler.
func Feeds(t testing.TB) []FeedReport {
	t.Helper()
	var handlers []struct{ Feeds []FeedReport }
	ReadAdmin(t, "/mcp_cache/", &handlers)
	if len(handlers) != 1 {
		t.Fatalf("there are %d handlers", len(handlers))
	}
	return handlers[0].Feeds
}

// RefreshFeeds makes the feeds ask the server now, whatever is due.
func RefreshFeeds(t testing.TB) {
	t.Helper()
	AskAdmin(t, http.MethodPost, "/mcp_cache/mcp_cache/refresh", nil)
}

// AwaitState waits until all feeds are in a state.
func AwaitState(t testing.TB, state string) {
	t.Helper()
	AwaitStateFor(t, fixture.Deadline, state)
}

// AwaitStateFor is like [AwaitState], for as long as the limit.
func AwaitStateFor(t testing.TB, limit time.Duration, state string) {
	t.Helper()
	AwaitFeeds(t, limit, "the state "+state, func(f FeedReport) bool { return f.State == state })
}

// AwaitFailure waits until all feeds are in a state because of a failure whose
// message has that text.
func AwaitFailure(t testing.TB, state, text string) {
	t.Helper()
	AwaitFeeds(t, fixture.Deadline, "the state "+state+" and "+text, func(f FeedReport) bool {
		return f.State == state && strings.Contains(f.Failure.Message, text)
	})
}

// AwaitFeeds waits until all feeds are as wanted. What they have seen last may
// be old, so they are made to look.
func AwaitFeeds(t testing.TB, limit time.Duration, what string, wanted func(FeedReport) bool) {
	t.Helper()
	var last []FeedReport
	done := func() bool {
		if last = Feeds(t); allAre(last, wanted) {
			return true
		}
		RefreshFeeds(t)
		return false
	}
	if !fixture.Poll(limit, 100*time.Millisecond, done) {
		t.Fatalf("waited %v in vain for %s; last: %+v", limit, what, last)
	}
}

// AllIn reports whether there are feeds, and all of them are in a state.
func AllIn(reports []FeedReport, state string) bool {
	return allAre(reports, func(f FeedReport) bool { return f.State == state })
}

func allAre(reports []FeedReport, wanted func(FeedReport) bool) bool {
	return len(reports) > 0 && !slices.ContainsFunc(reports, func(f FeedReport) bool { return !wanted(f) })
}
