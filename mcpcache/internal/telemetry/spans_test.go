package telemetry

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestTracing ends a request in a span: it has attributes, and fetches have
// spans from then on.
func TestTracing(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	tells := eventless("traced")
	refreshed := func(err error) {
		tells.Feeds().Refreshed(revision.V20260728, revision.Tools, time.Minute, false, err)
	}
	refreshed(nil)
	if n := len(spans.GetSpans()); n != 0 {
		t.Fatalf("%d spans were exported without a provider", n)
	}
	ctx, span := provider.Tracer("caddy").Start(t.Context(), "request")
	ctx = context.WithValue(ctx, caddyhttp.ExtraLogFieldsCtxKey, new(caddyhttp.ExtraLogFields))
	r := request(t, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}`).WithContext(ctx)
	r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	if err := endpoint(t, tells).ServeHTTP(httptest.NewRecorder(), r, nil); err != nil {
		t.Fatal(err)
	}
	span.End()
	wantAttributes(t, spans.GetSpans()[0].Attributes, map[string]string{
		"mcp.method.name": "tools/call", "mcp.protocol.version": "2025-06-18",
		"mcp_cache.outcome": "bypass", "gen_ai.tool.name": "add",
	})

	spans.Reset()
	refreshed(nil)
	refreshed(errors.New("fetching is hard"))
	got := spans.GetSpans()
	if len(got) != 2 {
		t.Fatalf("%d spans were exported, want 2", len(got))
	}
	for i, result := range []string{"changed", "failed"} {
		wantAttributes(t, got[i].Attributes, map[string]string{
			"mcp.method.name": "tools/list", "mcp.protocol.version": "2026-07-28",
			"mcp_cache.handler": "traced", "mcp_cache.result": result,
		})
		if got[i].Name != "refresh tools" || got[i].EndTime.Sub(got[i].StartTime) != time.Minute || got[i].Parent.IsValid() {
			t.Errorf("span is %q, took %v, has parent %v", got[i].Name, got[i].EndTime.Sub(got[i].StartTime), got[i].Parent)
		}
	}
	if s := got[1].Status; s.Code != codes.Error || s.Description != "fetching is hard" || got[0].Status.Code != codes.Unset {
		t.Errorf("statuses are %v, %v", got[0].Status, s)
	}

	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans.Reset()
	refreshed(nil)
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("%d spans were exported after the end", n)
	}
}

func wantAttributes(t *testing.T, got []attribute.KeyValue, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("attributes are %v, want %v", got, want)
	}
	for _, a := range got {
		if a.Value.AsString() != want[string(a.Key)] {
			t.Errorf("%s is %q, want %q", a.Key, a.Value.AsString(), want[string(a.Key)])
		}
	}
}
