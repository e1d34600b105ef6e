package mcpcache

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// liveCollector gives the gauges: it looks at the handlers that are in force
// whenever it is asked, so that none can be out of date or left behind.
type liveCollector struct{}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(metricsNamespace, metricsSubsystem, name), help, labels, nil)
}

var (
	itemsGauge      = gauge("items", "Items in the feed's snapshot of a list.", "handler", "kind")
	bytesGauge      = gauge("bytes", "Bytes of the feed's snapshot of a list.", "handler", "kind")
	ageGauge        = gauge("age_seconds", "Time since the feed's snapshot of a list was fetched.", "handler", "kind")
	partitionsGauge = gauge("partitions", "Sessions and authorization contexts that are remembered.", "handler")
	feedUpGauge     = gauge("feed_up", "Whether a feed of the era is connected and not failing.", "handler", "era")
)

// Describe implements [prometheus.Collector].
func (liveCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{itemsGauge, bytesGauge, ageGauge, partitionsGauge, feedUpGauge} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector].
func (liveCollector) Collect(metrics chan<- prometheus.Metric) {
	now := time.Now()
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, name := range live.names() {
		handlers := live.named(name)
		if len(handlers) == 0 {
			continue // it has just gone
		}
		// Handlers that share a name share the series: the newest counts.
		h := handlers[len(handlers)-1]
		for _, k := range revision.Kinds() {
			if e := h.newest(k); e != nil {
				set(itemsGauge, float64(e.Body.Items), name, k.String())
				set(bytesGauge, float64(len(e.Body.Bytes)), name, k.String())
				set(ageGauge, e.Age(now).Seconds(), name, k.String())
			}
		}
		remembered, _ := h.shared.admission.Count()
		set(partitionsGauge, float64(remembered), name)
		for _, era := range []revision.Era{revision.Legacy, revision.Modern} {
			set(feedUpGauge, h.feedUp(era), name, era.String())
		}
	}
}

// newest returns the snapshot of a kind that was fetched last, of whatever
// revision, or nil.
func (h *Handler) newest(k revision.Kind) *cache.Entry {
	var newest *cache.Entry
	for _, r := range revision.All() {
		if e := h.shared.cache.Pinned(r, k); e != nil && (newest == nil || e.Fetched.After(newest.Fetched)) {
			newest = e
		}
	}
	return newest
}

func (h *Handler) feedUp(era revision.Era) float64 {
	for _, f := range h.shared.feeds.All() {
		if s := f.Status(); s.Revision.Era() == era && (s.State == feed.Ready || s.State == feed.Degraded) {
			return 1
		}
	}
	return 0
}
