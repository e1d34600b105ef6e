package exchange

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zapobserver "go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestNotKeptIsSaidOnce follows the ttlMs of a list that changes: each change to
// 0 is one line, but no more than one a minute.
func TestNotKeptIsSaidOnce(t *testing.T) {
	core, logs := zapobserver.New(zapcore.InfoLevel)
	h := newFace(t, config{})
	h.Logger = zap.New(core)
	now := time.Unix(1_800_000_000, 0)
	give := func(r revision.Revision, k revision.Kind, ttl time.Duration, given bool) {
		l := learner{exchange: &exchange{endpoint: h.Endpoint, search: search{now: now, question: question{kind: k, revision: r}}}}
		lifetime := h.backend.Settings.Feed.Lifetime(k, ttl, given)
		l.noteKeeping(&message.Page{TTL: ttl, HasTTL: given}, lifetime, lifetime > 0)
	}
	want := func(n int, when string) {
		t.Helper()
		if logs.Len() != n {
			t.Errorf("%s, %d lines have been said, want %d", when, logs.Len(), n)
		}
	}
	for range 3 {
		give(revision.V20260728, revision.Tools, 0, true)
	}
	want(1, "after three lists with ttlMs 0")
	give(revision.V20260728, revision.Prompts, 0, true)
	give(revision.V20251125, revision.Tools, 0, true)
	want(3, "of another kind and at another revision")
	give(revision.V20260728, revision.Reads, 0, true)
	give(revision.V20251125, revision.Resources, 0, false)
	want(3, "of contents, and of a list without ttlMs")
	for range 50 {
		give(revision.V20260728, revision.Tools, time.Second, true)
		give(revision.V20260728, revision.Tools, 0, true)
	}
	want(3, "of one that changes all the time")
	now = now.Add(sayAgain)
	give(revision.V20260728, revision.Tools, time.Second, true)
	give(revision.V20260728, revision.Tools, 0, true)
	want(4, "of one that changes again a minute later")
}
