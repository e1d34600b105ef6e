package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/caddy-mcp/mcp-cache"

// spans traces what happens outside of requests. Caddy keeps the provider of
// its tracing to itself, but every span of a traced request leads to it: the
// feeds have spans from the first traced request on.
type spans struct {
	provider atomic.Pointer[trace.TracerProvider]
}

// learn remembers where a request's span came from.
func (s *spans) learn(span trace.Span) {
	if s.provider.Load() == nil {
		provider := span.TracerProvider()
		s.provider.Store(&provider)
	}
}

// refreshed makes a span of a fetch that has just ended. It has no parent: it
// is nobody's request.
func (s *spans) refreshed(handler string, r revision.Revision, k revision.Kind, result string, took time.Duration, err error) {
	provider := s.provider.Load()
	if provider == nil {
		return
	}
	end := time.Now()
	_, span := (*provider).Tracer(tracerName).Start(context.Background(), "refresh "+k.String(),
		trace.WithTimestamp(end.Add(-took)),
		trace.WithAttributes(
			attribute.String("mcp.method.name", k.Method()),
			attribute.String("mcp.protocol.version", r.String()),
			attribute.String("mcp_cache.handler", handler),
			attribute.String("mcp_cache.result", result),
		))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End(trace.WithTimestamp(end))
}
