package exchange

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
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
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
		"a stream that goes on": {onOpenStream(100*time.Millisecond, "new"), `"new"`, 100*time.Millisecond + openFor},
		"a failure":             {failsWith(http.StatusServiceUnavailable), `"old"`, 0},
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
				f := newFace(t, config{Gate: duration(0)})
				f.pinned(t, legacy, cache.Public, time.Hour, 0, "old")
				f.session(t, "s", legacy)
				told := f.session(t, "told", legacy)
				f.upstreamIs(answering(200, "text/event-stream", noticeOf("tools/list_changed")))
				f.serve(t, legacyRequest(legacy, "told", "tools/call"))
				if told.NoticeSeen(revision.Tools) == nil {
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

// A caller without a session who was told of a change, and was given what it was
// told of, waits no longer than others when the upstream hangs later.
func TestToldOnceIsNotTold(t *testing.T) {
	const modern = revision.V20260728
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		f.letIn(t, "Bearer a")
		f.pinned(t, modern, cache.Public, time.Hour, 0, "old")
		f.as(t, "Bearer a", modernRequest("subscriptions/listen", ""),
			answering(200, "text/event-stream", noticeOf("tools/list_changed")))
		f.pinned(t, modern, cache.Public, time.Hour, 0, "new")
		f.backend.Cache.Bump(revision.SetOf(revision.Tools)) // this caller is not told of that
		f.upstreamIs(hanging)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w, r := httptest.NewRecorder(), modernRequest("tools/list", "").WithContext(ctx)
		r.Header.Set("Authorization", "Bearer a")
		err := f.ServeHTTP(w, r, nil)
		if took := time.Since(began); err != nil || took != time.Second || !strings.Contains(w.Body.String(), `"new"`) {
			t.Errorf("after %s: %d, %v, %s", took, w.Code, err, w.Body)
		}
	})
}

// What a caller has waited already, for what its call has changed, counts when it
// waits for what another of its variant learns.
func TestWaitsAddUpToASecond(t *testing.T) {
	const legacy = revision.V20251125
	for _, waited := range []time.Duration{0, 600 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			best := f.pinned(t, legacy, cache.Public, time.Hour, 0, "old")
			x, _ := f.question(t, legacyRequest(legacy, "", "tools/list"))
			q := &x.question
			q.record = f.backend.Variants.Learn(variant.Client{Capabilities: []byte(`{}`), Name: "n"})
			q.variant = q.record.Key
			scout, _ := q.record.Scout(q.revision, q.kind)
			defer scout.Land(struct{}{}, nil)
			began := time.Now()
			x.arrived = began.Add(-waited)
			if e, late := x.fetch(t.Context(), best, true, asker{}); e != nil || !late {
				t.Errorf("got %v, %v", e, late)
			}
			if took := time.Since(began); took != freshness.StalePatience-waited {
				t.Errorf("after %s, the caller waited for %s", waited, took)
			}
			if !x.now.Equal(time.Now()) {
				t.Errorf("after the wait, lists have %s more of their time than is left", time.Since(x.now))
			}
		})
	}
}

// A client that goes away while its answer is held back takes nothing with it.
func TestClientLeavesWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const legacy = revision.V20251125
		f := newFace(t, config{Gate: duration(0)})
		f.pinned(t, legacy, cache.Public, time.Hour, 0, "old")
		f.session(t, "s", legacy)
		f.backend.Cache.Bump(revision.SetOf(revision.Tools))
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

// With `stale_if_error … after_notice`, who was told of a change waits no longer
// for the upstream than others.
func TestToldMayGetTheOldCopy(t *testing.T) {
	const legacy = revision.V20251125
	for _, allowed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			f.backend.Settings.Stale.AfterNotice = allowed
			f.pinned(t, legacy, cache.Public, time.Hour, 0, "old")
			f.session(t, "told", legacy)
			f.upstreamIs(answering(200, "text/event-stream", noticeOf("tools/list_changed")))
			f.serve(t, legacyRequest(legacy, "told", "tools/call"))
			f.upstreamIs(hanging)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began, w := time.Now(), httptest.NewRecorder()
			_ = f.ServeHTTP(w, legacyRequest(legacy, "told", "tools/list").WithContext(ctx), nil)
			if took := time.Since(began); allowed != (took == time.Second) || allowed != strings.Contains(w.Body.String(), `"old"`) {
				t.Errorf("after_notice %v: after %s, got %d, %s", allowed, took, w.Code, w.Body)
			}
		})
	}
}
