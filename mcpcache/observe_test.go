package mcpcache

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/keeper"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestPlaceholders(t *testing.T) {
	modern := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Name": {"named"}}
	for name, c := range map[string]struct {
		x                                          exchange
		header                                     http.Header
		outcome, method, kind, era, revision, tool string
	}{
		"list": {
			x:       exchange{method: "tools/list", outcome: outcomeHit, question: question{revision: revision.V20251125}},
			outcome: "hit", method: "tools/list", kind: "tools", era: "legacy", revision: "2025-11-25",
		},
		"stale templates": {
			x:       exchange{method: "resources/templates/list", outcome: outcomeStale},
			header:  modern,
			outcome: "stale", method: "resources/templates/list", kind: "resource_templates", era: "modern", revision: "2026-07-28",
		},
		"call": {
			x:       exchange{method: "tools/call", body: wholeBody(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"es\u0063aped"}}`)},
			header:  http.Header{"Mcp-Name": {"named"}},
			outcome: "bypass", method: "tools/call", era: "legacy", revision: "unknown", tool: "escaped",
		},
		"call of no tool": {
			x:       exchange{method: "tools/call", body: wholeBody(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)},
			outcome: "bypass", method: "tools/call", era: "legacy", revision: "unknown",
		},
		"call that is no JSON": {
			x:       exchange{method: "tools/call", body: wholeBody(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}`)},
			outcome: "bypass", method: "tools/call", era: "legacy", revision: "unknown",
		},
		"call known by its header": {
			x: exchange{method: "tools/call", outcome: outcomeMiss}, header: modern,
			outcome: "miss", method: "tools/call", era: "modern", revision: "2026-07-28", tool: "named",
		},
		"stream": {
			header:  http.Header{"Mcp-Protocol-Version": {"1999-01-01"}, "Mcp-Name": {"named"}},
			outcome: "bypass", era: "legacy", revision: "unknown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			repl := caddy.NewReplacer()
			ctx := context.WithValue(t.Context(), caddy.ReplacerCtxKey, repl)
			c.x.r = httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil)
			c.x.r.Header = c.header
			c.x.begin()
			for key, want := range map[string]string{
				"outcome": c.outcome, "method": c.method, "kind": c.kind, "era": c.era, "revision": c.revision, "tool": c.tool,
			} {
				if got := repl.ReplaceAll("{http.mcp_cache."+key+"}", "unset"); got != orDefault(want, "unset") {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
			if got, known := repl.GetString("http.mcp_cache.other"); known {
				t.Errorf("an unknown placeholder is %q", got)
			}
		})
	}
}

// wholeBody is a body that has been read.
func wholeBody(text string) body { return body{bytes: []byte(text), whole: true} }

// TestTracing ends a request in a span: it has attributes, and fetches have
// spans from then on.
func TestTracing(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	h := operated(t, "traced")
	h.observer = &observer{name: "traced", keeper: keeper.New("traced", nil, nil)}
	refreshed := func(err error) {
		h.observer.Refreshed(revision.V20260728, revision.Tools, time.Minute, false, err)
	}
	refreshed(nil)
	if n := len(spans.GetSpans()); n != 0 {
		t.Fatalf("%d spans were exported without a provider", n)
	}
	ctx, span := provider.Tracer("caddy").Start(t.Context(), "request")
	ctx = context.WithValue(ctx, caddyhttp.ExtraLogFieldsCtxKey, new(caddyhttp.ExtraLogFields))
	x := &exchange{h: h, arrived: time.Now(), method: "tools/call", toolName: "add", outcome: outcomeBypass}
	x.r = httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil)
	x.r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	x.end()
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
