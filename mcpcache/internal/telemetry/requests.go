package telemetry

import (
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// sourceFeed is where a change was noticed, as a metric label, besides those of
// [outcome.Source].
const sourceFeed = "feed"

// changeSources are all of them.
var changeSources = [...]string{sourceFeed, string(outcome.FromClient), string(outcome.FromCall)}

// requests turns what becomes of a handler's requests into metrics, fields of
// access logs and attributes of spans.
type requests struct{ t *Telemetry }

// Noticed implements [outcome.Observer].
func (o requests) Noticed(kinds revision.KindSet, source outcome.Source) {
	countChanges(o.t.name, kinds, string(source))
}

// Answered implements [outcome.Observer].
func (o requests) Answered(a outcome.Answered) {
	o.t.count(a)
	ctx := a.Context()
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && server.Logs != nil {
		if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
			extra.Add(zap.String("mcp_method", outcome.Methods[a.Method()]))
			extra.Add(zap.String("mcp_tool", a.Tool()))
			if server := a.Server(); server != "" {
				extra.Add(zap.String("mcp_server", server))
			}
			extra.Add(zap.Stringer("mcp_outcome", a.Outcome()))
			extra.Add(zap.Stringer("mcp_era", a.Revision().Era()))
		}
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attributesOf(a)...)
		o.t.spans.learn(span)
	}
}

// count counts a request in the handler's series.
func (t *Telemetry) count(a outcome.Answered) {
	became := a.Outcome()
	t.series.count[a.Method()][became].Inc()
	if became == outcome.Hit || became == outcome.Stale {
		t.series.hits[a.Revision()][a.Kind()].Add(1)
	}
	t.series.duration[became].Observe(a.Took().Seconds())
}

// routed counts what a toolkit hands to one of its servers in the series of that one, too.
// The rest is told by the toolkit's own [requests].
type routed struct{ requests }

// Answered implements [outcome.Observer].
func (o routed) Answered(a outcome.Answered) { o.t.count(a) }

// attributesOf describes a request on Caddy's span, in the words of
// OpenTelemetry's semantic conventions for MCP where those have one.
func attributesOf(a outcome.Answered) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("mcp.method.name", outcome.Methods[a.Method()]),
		attribute.String("mcp.protocol.version", a.Revision().String()),
		attribute.String("mcp_cache.outcome", a.Outcome().String()),
	}
	if tool := a.Tool(); tool != "" {
		list = append(list, attribute.String("gen_ai.tool.name", tool))
	}
	if server := a.Server(); server != "" {
		list = append(list, attribute.String("mcp_cache.server", server))
	}
	return list
}

// Interface guards
var (
	_ outcome.Observer = requests{}
	_ outcome.Observer = routed{}
)
