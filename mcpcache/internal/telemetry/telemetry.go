// Package telemetry makes metrics, events, spans and fields of access logs. Feeds and requests
// tell it what they do, through the interfaces [feed.Observer] and [outcome.Observer]. For the
// gauges it looks at the live handlers of internal/report.
//
// Nothing depends on it: the cache keeps and answers the same without it.
package telemetry

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Telemetry is that of one handler. Stop ends its goroutine.
type Telemetry struct {
	name   string
	series *requestSeries
	events *events
	spans  spans
}

// New returns the telemetry of the handler of that name. Its events are delivered
// once inForce reports that all apps of the configuration that is being provisioned
// have started: until then, the events app is still taking subscriptions. Feeds that
// live on may be at work already.
func New(ctx caddy.Context, app *caddyevents.App, name string, inForce func() bool, logger *zap.Logger) *Telemetry {
	return &Telemetry{name: name, series: newRequestSeries(name), events: newEvents(ctx, app, inForce, logger)}
}

// Stop ends the events. One that is being delivered is not waited for: its
// subscriber may itself be waiting for the reload that stops them.
func (t *Telemetry) Stop() { t.events.stop() }

// Feeds returns what the handler's feeds are to tell.
func (t *Telemetry) Feeds() feed.Observer { return feeds{t} }

// Requests returns what the handler's requests are to tell.
func (t *Telemetry) Requests() outcome.Observer { return requests{t} }

// Routed returns what the requests are to tell that a toolkit hands to the handler, which is
// one of its servers.
func (t *Telemetry) Routed() outcome.Observer { return routed{requests{t}} }

// RuleFailed counts a matcher of rules that failed.
func (t *Telemetry) RuleFailed() { t.series.ruleErrors.Inc() }

// Hits is how many answers of a kind at a revision came from the cache, stale
// ones too.
func (t *Telemetry) Hits(r revision.Revision, k revision.Kind) uint64 {
	return t.series.hits[r][k].Load()
}
