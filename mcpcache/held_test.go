package mcpcache

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// hanging is an upstream that answers nothing until the request ends.
func hanging(_ http.ResponseWriter, r *http.Request) error {
	<-r.Context().Done()
	return r.Context().Err()
}

// TestNobodyWaitsLongerThanASecond has the upstream hang in every way when a list
// was outdated: who was not told of it gets the old copy after a second, marked
// stale; who was told waits for the upstream.
func TestNobodyWaitsLongerThanASecond(t *testing.T) {
	const legacy = revision.V20251125
	whole := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"new"}]}}`
	for name, c := range map[string]struct {
		answer stand
		want   string // that a caller gets who was not told
		after  time.Duration
	}{
		"no answer": {hanging, `"old"`, time.Second},
		"no answer, no error": {func(w http.ResponseWriter, r *http.Request) error {
			_ = hanging(w, r)
			return nil // as reverse_proxy does when a request is cancelled
		}, `"old"`, time.Second},
		"no answer, a panic": {func(w http.ResponseWriter, r *http.Request) error {
			_ = hanging(w, r)
			panic(http.ErrAbortHandler)
		}, `"old"`, time.Second},
		"only a header": {func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			return hanging(w, r)
		}, `"old"`, time.Second},
		"half a body": {func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, whole[:40])
			return hanging(w, r)
		}, `"old"`, time.Second},
		"just in time": {func(w http.ResponseWriter, r *http.Request) error {
			time.Sleep(time.Second - time.Millisecond)
			return answering(http.StatusOK, "application/json", whole)(w, r)
		}, `"new"`, time.Second - time.Millisecond},
		"a failure": {failsWith(http.StatusServiceUnavailable), `"old"`, 0},
		"a long answer": {func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Replace(whole, `{`, `{"x":"`+strings.Repeat("x", maxHeld)+`",`, 1)[:maxHeld+30])
			time.Sleep(2 * time.Second) // its client has the beginning already
			_, err := io.WriteString(w, "the end")
			return err
		}, "the end", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFace(t, &Handler{Gate: duration(0)})
				f.pinned(t, legacy, cache.Public, time.Hour, 0, "old")
				f.session(t, "s", legacy)
				told := f.session(t, "told", legacy)
				f.upstreamIs(answering(200, "text/event-stream", noticeOf("tools/list_changed")))
				f.serve(t, legacyRequest(legacy, "told", "tools/call"))
				if told.Told(revision.Tools) == nil {
					t.Fatal("nothing is known of the notice")
				}
				f.upstreamIs(c.answer)
				began := time.Now()
				w := f.serve(t, legacyRequest(legacy, "s", "tools/list"))
				stale := strings.HasSuffix(w.Header().Get("Cache-Status"), "; detail=stale")
				if took := time.Since(began); took != c.after || !strings.Contains(w.Body.String(), c.want) || stale != (c.want == `"old"`) {
					t.Errorf("after %s, got %d, %q: %.60s", took, w.Code, w.Header().Get("Cache-Status"), w.Body)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				defer func() { _ = recover() }() // the upstream's
				recorder := httptest.NewRecorder()
				_ = f.ServeHTTP(recorder, legacyRequest(legacy, "told", "tools/list").WithContext(ctx), nil)
				if strings.Contains(recorder.Body.String(), `"old"`) {
					t.Errorf("the caller who was told got the old list, %q", recorder.Header().Get("Cache-Status"))
				}
			})
		})
	}
}

// A client that goes away while its answer is held back takes nothing with it.
func TestClientLeavesWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const legacy = revision.V20251125
		f := newFace(t, &Handler{Gate: duration(0)})
		f.pinned(t, legacy, cache.Public, time.Hour, 0, "old")
		f.session(t, "s", legacy)
		f.shared.cache.Bump(revision.SetOf(revision.Tools))
		f.upstreamIs(hanging)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := f.ServeHTTP(httptest.NewRecorder(), legacyRequest(legacy, "s", "tools/list").WithContext(ctx), nil)
		if took := time.Since(began); took != 100*time.Millisecond || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
