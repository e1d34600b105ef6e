package telemetry

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	metricsNamespace = "caddy"
	metricsSubsystem = "mcp_cache"
)

// collectors live as long as the process. Each configuration has a registry of
// its own and registers them with it, so that no reload loses a count.
var collectors = newCollectors()

type metricSet struct {
	requests        *prometheus.CounterVec
	duration        *prometheus.HistogramVec
	refreshes       *prometheus.CounterVec
	refreshDuration *prometheus.HistogramVec
	changes         *prometheus.CounterVec
	ruleErrors      *prometheus.CounterVec
	hits            hitTable // no series: the status shows them
}

func newCollectors() *metricSet {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help, Buckets: buckets,
		}, labels)
	}
	return &metricSet{
		requests: counter("requests_total",
			"Requests to the MCP endpoint, by method and by what became of them: hit, stale, miss, bypass, denied or routed.",
			"handler", "method", "outcome"),
		duration: histogram("request_duration_seconds",
			"Time until a request was answered, streams to their end, by what became of it.",
			prometheus.ExponentialBuckets(0.00005, 4, 10), "handler", "outcome"),
		refreshes: counter("refreshes_total",
			"Fetches of a list by the feed, by kind and result: changed, unchanged or failed.",
			"handler", "kind", "result"),
		refreshDuration: histogram("refresh_duration_seconds",
			"Time of a fetch of a list by the feed, all its pages together.",
			prometheus.ExponentialBuckets(0.001, 4, 9), "handler", "kind"),
		changes: counter("changes_total",
			"Change notices, by kind and by where they were seen: feed, client or call.",
			"handler", "kind", "source"),
		ruleErrors: counter("rule_errors_total",
			"Matchers of rules that failed: each counts as no match for allow, and as a match for deny.",
			"handler"),
	}
}

func (m *metricSet) all() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.duration, m.refreshes, m.refreshDuration, m.changes, m.ruleErrors}
}

// forget removes the series of a handler that is gone, one by one: to look for
// them among those of all others takes a second for a hundred handlers.
func (m *metricSet) forget(handler string) {
	for o := range outcome.Count {
		for _, method := range outcome.Methods {
			m.requests.DeleteLabelValues(handler, method, outcome.Outcome(o).String())
		}
		m.duration.DeleteLabelValues(handler, outcome.Outcome(o).String())
	}
	for k := range revision.Kind(revision.NumKinds) {
		for _, result := range refreshResults {
			m.refreshes.DeleteLabelValues(handler, k.String(), result)
		}
		m.refreshDuration.DeleteLabelValues(handler, k.String())
		for _, source := range changeSources {
			m.changes.DeleteLabelValues(handler, k.String(), source)
		}
	}
	m.ruleErrors.DeleteLabelValues(handler)
	m.hits.forget(handler)
}

// Forget removes the series of a handler that is gone. It is called by
// [report.Registry.Remove].
func Forget(handler string) { collectors.forget(handler) }

// Register registers the collectors with a configuration's registry. Another
// handler of the same configuration may have done so already.
func Register(registry *prometheus.Registry) error {
	for _, c := range append(collectors.all(), liveCollector{}) {
		err := registry.Register(c)
		if _, already := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !already {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// requestSeries are those of one handler's requests, looked up once.
type requestSeries struct {
	count    [len(outcome.Methods)][outcome.Count]prometheus.Counter
	duration [outcome.Count]prometheus.Observer
	// ruleErrors are of the rules that those requests are held against.
	ruleErrors prometheus.Counter
	hits       *hitCounts
}

func newRequestSeries(handler string) *requestSeries {
	m := &requestSeries{ruleErrors: collectors.ruleErrors.WithLabelValues(handler), hits: collectors.hits.of(handler)}
	for o := range outcome.Count {
		for i, method := range outcome.Methods {
			m.count[i][o] = collectors.requests.WithLabelValues(handler, method, outcome.Outcome(o).String())
		}
		m.duration[o] = collectors.duration.WithLabelValues(handler, outcome.Outcome(o).String())
	}
	return m
}

// countChanges counts a notice for each kind it concerns. Notices of single
// resources count for the lists' kind.
func countChanges(handler string, kinds revision.KindSet, source string) {
	report.Live.WhileLive(handler, func() {
		for _, k := range revision.Kinds() {
			if kinds.Has(k) || k == revision.Resources && kinds.Has(revision.Reads) {
				collectors.changes.WithLabelValues(handler, k.String(), source).Inc()
			}
		}
	})
}

// countRefresh counts a fetch of a list by a feed.
func countRefresh(handler string, k revision.Kind, result string, took time.Duration) {
	report.Live.WhileLive(handler, func() {
		collectors.refreshes.WithLabelValues(handler, k.String(), result).Inc()
		collectors.refreshDuration.WithLabelValues(handler, k.String()).Observe(took.Seconds())
	})
}
