package mcpcache

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// hydrated runs a test in a bubble with a handler whose modern feed has
// fetched its lists.
func hydrated(t *testing.T, test func(t *testing.T, h *Handler, upstream *listServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, upstream := operated(t, "hydrated")
		goLive(t, h)
		upstream.set("tools/list", "a", "b")
		upstream.set("resources/list", "file:///x")
		h.shared.feeds.Start(revision.LatestModern)
		synctest.Wait()
		test(t, h, upstream)
	})
}

func TestDescribe(t *testing.T) {
	hydrated(t, func(t *testing.T, h *Handler, _ *listServer) {
		h.metrics.hits[revision.LatestModern][revision.Tools].Add(3)
		h.metrics.hits[revision.LatestLegacy][revision.Tools].Add(5)
		time.Sleep(10 * time.Second)
		s := h.describe(time.Now())
		if !s.Ready || s.Name != "hydrated" || s.Upstream != "http://127.0.0.1:1/mcp" {
			t.Errorf("status is %+v", s)
		}
		if len(s.Feeds) != 1 || s.Feeds[0].State != feed.Ready || s.Feeds[0].Era != "modern" || s.Feeds[0].Failure != nil ||
			s.Feeds[0].Next == nil || !time.Now().Equal(s.Feeds[0].Since.Add(10*time.Second)) {
			t.Errorf("feeds are %+v", s.Feeds)
		}
		var kinds []string
		for _, k := range s.Kinds {
			kinds = append(kinds, k.Kind)
		}
		if !slices.Equal(kinds, []string{"tools", "resources", "discover"}) {
			t.Fatalf("kinds are %q", kinds)
		}
		if k := s.Kinds[0]; k.Items != 2 || k.Hits != 3 || k.Age != 10 || k.TTL != 290 || len(k.Digest) != 64 || k.Bytes == 0 {
			t.Errorf("tools are %+v", k)
		}
	})
}

// TestNotReadyWhileHydrating holds one list back: the handler is not ready
// before all are there.
func TestNotReadyWhileHydrating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, upstream := operated(t, "hydrating")
		upstream.set("tools/list", "a")
		upstream.hold = make(chan struct{})
		h.shared.feeds.Start(revision.LatestModern)
		synctest.Wait()
		if s := h.describe(time.Now()); s.Ready || s.Feeds[0].State != feed.Hydrating || len(s.Kinds) == 0 {
			t.Errorf("while it hydrates, the status is %+v", s)
		}
		close(upstream.hold)
		synctest.Wait()
		if s := h.describe(time.Now()); !s.Ready || s.Feeds[0].State != feed.Ready {
			t.Errorf("then the status is %+v", s)
		}
		upstream.set("tools/list")
		h.shared.transport.Use(nil)
		h.refresh(t.Context(), []revision.Kind{revision.Tools})
		if s := h.describe(time.Now()); !s.Ready || s.Feeds[0].Failure == nil || s.Feeds[0].Failure.Stage != "tools" {
			t.Errorf("without its upstream, the status is %+v", s)
		}
	})
}

func TestReadyWithRestoredSnapshots(t *testing.T) {
	h, _ := operated(t, "restored")
	synctest.Test(t, func(t *testing.T) {
		if s := h.describe(time.Now()); s.Ready {
			t.Error("a handler without feeds is ready")
		}
	})
	pin(t, h, revision.LatestModern, revision.Tools, time.Hour, `{"name":"a"}`)
	h.shared.transport.Use(nil)
	h.shared.feeds.Start(revision.LatestModern)
	if s := h.describe(time.Now()); !s.Ready {
		t.Errorf("with a snapshot from before the restart, the status is %+v", s)
	}
}

func TestRefreshSaysWhatChanged(t *testing.T) {
	hydrated(t, func(t *testing.T, h *Handler, upstream *listServer) {
		upstream.set("tools/list", "b", "c")
		results := h.refresh(t.Context(), revision.Kinds())
		want := []refreshResult{
			{Kind: "tools", Revision: "2026-07-28", Items: 2, Added: []string{"c"}, Removed: []string{"a"}, Changed: []string{}},
			{Kind: "resources", Revision: "2026-07-28", Items: 1, Added: []string{}, Removed: []string{}, Changed: []string{}},
			{Kind: "discover", Revision: "2026-07-28", Added: []string{}, Removed: []string{}, Changed: []string{}},
		}
		if !reflect.DeepEqual(results, want) {
			t.Errorf("refreshing gave %+v", results)
		}
		h.shared.transport.Use(nil)
		results = h.refresh(t.Context(), []revision.Kind{revision.Tools})
		if len(results) != 1 || results[0].Kind != "tools" || results[0].Error == "" {
			t.Errorf("refreshing without an upstream gave %+v", results)
		}
		if results := h.refresh(t.Context(), []revision.Kind{revision.Prompts}); len(results) != 0 {
			t.Errorf("refreshing what is not offered gave %+v", results)
		}
	})
}

// TestRefreshesAreShared asks for two refreshes at once: the upstream is asked
// once.
func TestRefreshesAreShared(t *testing.T) {
	hydrated(t, func(t *testing.T, h *Handler, upstream *listServer) {
		before := upstream.count("tools/list")
		hold := make(chan struct{})
		upstream.mu.Lock()
		upstream.hold = hold
		upstream.mu.Unlock()
		upstream.set("tools/list", "a", "b", "c")
		results := make(chan []refreshResult, 2)
		for range 2 {
			go func() { results <- h.refresh(t.Context(), []revision.Kind{revision.Tools}) }()
		}
		synctest.Wait()
		close(hold)
		for range 2 {
			if r := <-results; len(r) != 1 || !slices.Equal(r[0].Added, []string{"c"}) || r[0].Error != "" {
				t.Errorf("refreshing gave %+v", r)
			}
		}
		if n := upstream.count("tools/list") - before; n != 1 {
			t.Errorf("two refreshes cost %d requests", n)
		}
	})
}

func TestItems(t *testing.T) {
	h, _ := operated(t, "items")
	if _, err := h.items(revision.Tools); statusOf(err) != http.StatusNotFound {
		t.Errorf("without a snapshot: %v", err)
	}
	if _, err := h.items(revision.Discover); statusOf(err) != http.StatusNotFound {
		t.Errorf("of discover: %v", err)
	}
	odd := `{"name":"odd","title":1,"description":["x"],"n":1.0e2}`
	pin(t, h, revision.V20251125, revision.Tools, time.Hour, `{"name":"old"}`)
	pin(t, h, revision.V20260728, revision.Tools, 0, odd, `{"description":"D","name":"b","title":"B"}`)
	items, err := h.items(revision.Tools)
	if err != nil || len(items) != 2 || string(items[0].raw) != odd {
		t.Fatalf("items are %v, %v", items, err)
	}
	for i, want := range []itemSummary{{Name: "odd"}, {Name: "b", Title: "B", Description: "D"}} {
		if got := items[i].summary(); got != want {
			t.Errorf("item %d is %+v, want %+v", i, got, want)
		}
	}
}

func statusOf(err error) int {
	if apiErr, ok := errors.AsType[caddy.APIError](err); ok {
		return apiErr.HTTPStatus
	}
	return 0
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a*", "abc", true},
		{"a*", "ba", false},
		{"*note*", "file:///notes/1", true},
		{"file:??/x", "file:///x", true},
		{"file://*", "file:///a/b/c", true},
		{"get_[a-c]", "get_b", true},
		{"a/b", "a/b", true},
		{`a\*`, "a*", true},
	} {
		if got, err := matches(c.pattern, c.name); err != nil || got != c.want {
			t.Errorf("%q matches %q: %v, %v", c.pattern, c.name, got, err)
		}
	}
	for _, bad := range []string{"[", "a[", `\`} {
		if _, err := matches(bad, ""); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// statusSchema is the schema of what the status command prints.
func statusSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	raw, err := os.ReadFile("testdata/status.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// fullStatus has every member that there is.
func fullStatus() handlerStatus {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	next := at.Add(90 * time.Second)
	return handlerStatus{
		Name: "full", Upstream: "http://127.0.0.1:3001/mcp", Ready: true,
		Feeds: []feedStatus{
			{
				Era: "legacy", Revision: "2025-11-25", State: feed.Degraded, Since: at.Add(-time.Hour), Listening: true, Next: &next,
				Failure: &failureStatus{Stage: "tools", Message: "calling tools/list: \x1b[31mred", At: at.Add(-time.Minute)},
			},
			{
				Era: "modern", Revision: "2026-07-28", State: feed.Unsupported, Since: at,
				Failure: &failureStatus{Stage: "connect", Message: "failed to send request: status 400", At: at},
			},
		},
		Kinds: []kindStatus{
			{Kind: "tools", Revision: "2025-11-25", Items: 42, Bytes: 4096, Digest: strings.Repeat("0a", 32), Age: 61.2, TTL: -3.4, Uncacheable: ttlZero, Hits: 7},
			{Kind: "prompts", Revision: "2025-11-25", Items: 1, Bytes: 10, Digest: strings.Repeat("f0", 32), TTL: -3},
			{Kind: "discover", Revision: "2026-07-28", Bytes: 10, Digest: strings.Repeat("f0", 32), TTL: 10},
		},
	}
}

// TestStatusMatchesItsSchema holds the schema and the types together: what the
// handler says is valid, and nothing may be missing or added.
func TestStatusMatchesItsSchema(t *testing.T) {
	schema := statusSchema(t)
	generic := func(statuses ...handlerStatus) []any {
		raw, err := json.Marshal(statuses)
		if err != nil {
			t.Fatal(err)
		}
		var value []any
		if err := json.Unmarshal(raw, &value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	for _, s := range []feed.State{feed.Connecting, feed.Hydrating, feed.Ready, feed.Degraded, feed.Down, feed.NeedsAuthorization, feed.Unsupported} {
		full := fullStatus()
		full.Feeds[0].State = s
		if err := schema.Validate(generic(full)); err != nil {
			t.Errorf("with state %s: %v", s, err)
		}
	}
	hydrated(t, func(t *testing.T, h *Handler, _ *listServer) {
		if err := schema.Validate(generic(h.describe(time.Now()))); err != nil {
			t.Error(err)
		}
	})
	optional := map[string]bool{"last_failure": true, "next_refresh": true, "uncacheable": true}
	for _, path := range []string{"", "feeds", "kinds", "last_failure"} {
		find := func(value []any) map[string]any {
			object := value[0].(map[string]any)
			switch path {
			case "":
				return object
			case "last_failure":
				return object["feeds"].([]any)[0].(map[string]any)[path].(map[string]any)
			}
			return object[path].([]any)[0].(map[string]any)
		}
		for member := range find(generic(fullStatus())) {
			value := generic(fullStatus())
			delete(find(value), member)
			if err := schema.Validate(value); (err == nil) != optional[member] {
				t.Errorf("without %s %s: %v", path, member, err)
			}
			value = generic(fullStatus())
			find(value)[member] = map[string]any{"of": "another type"}
			if schema.Validate(value) == nil {
				t.Errorf("%s %s may be anything", path, member)
			}
		}
		value := generic(fullStatus())
		find(value)["unheard_of"] = 1
		if schema.Validate(value) == nil {
			t.Errorf("%s may have members that nobody knows", path)
		}
	}
}
