package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/program"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
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
	viewsGauge      = gauge("views", "Lists that are ready as callers are shown them, where there are rules.", "handler")
	viewBytesGauge  = gauge("view_bytes", "Bytes of the lists that are ready as callers are shown them.", "handler")
	conflictsGauge  = gauge("conflicts", "What clients of a toolkit are not given as its servers have it.", "handler", "kind")
	listenersGauge  = gauge("listeners", "Clients of a toolkit that listen for changes of its lists.", "handler")
	sessionsGauge   = gauge("sessions", "Sessions of clients for which sessions with servers of a toolkit are open.", "handler")
	processesGauge  = gauge("program_processes", "Processes of a program that run.", "handler")
	startsCounter   = gauge("program_starts_total", "Starts of processes of a program, by result: started or failed.", "handler", "result")
	exitsCounter    = gauge("program_exits_total", "Ends of processes of a program, by reason: stopped, or died by themselves or of something that was wrong with them.", "handler", "reason")
	fleetUpGauge    = gauge("fleet_up", "Whether this instance is told of changes by those that share its store, where one is shared.", "handler")
	membersGauge    = gauge("fleet_members", "Instances that are together, this one included; 0 if it is not.", "handler")
	feedUpGauge     = gauge("feed_up", "Whether a feed of the era is connected and not failing.", "handler", "era")
)

// Describe implements [prometheus.Collector].
func (liveCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{itemsGauge, bytesGauge, ageGauge, partitionsGauge, viewsGauge, viewBytesGauge, conflictsGauge, sessionsGauge, listenersGauge, processesGauge, startsCounter, exitsCounter, fleetUpGauge, membersGauge, feedUpGauge} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector].
func (liveCollector) Collect(metrics chan<- prometheus.Metric) {
	now := time.Now()
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, name := range report.Live.Names() {
		sources := report.Live.Named(name)
		if len(sources) == 0 {
			continue // it has just gone
		}
		// Handlers that share a name share the series: the newest counts.
		source := sources[len(sources)-1]
		for _, k := range revision.Kinds() {
			if e := report.Newest(source, k); e != nil {
				set(itemsGauge, float64(e.Body.Items), name, k.String())
				set(bytesGauge, float64(len(e.Body.Bytes)), name, k.String())
				set(ageGauge, e.Age(now).Seconds(), name, k.String())
			}
		}
		set(partitionsGauge, float64(source.Callers()), name)
		shown, bytes := source.FilteredLists(), 0
		for _, list := range shown {
			bytes += list.Bytes
		}
		set(viewsGauge, float64(len(shown)), name)
		set(viewBytesGauge, float64(bytes), name)
		if t := source.Toolkit(); t != nil { // the feeds are the servers'
			set(sessionsGauge, float64(t.Sessions()), name)
			set(listenersGauge, float64(t.Listeners()), name)
			counts := make(map[string]int)
			for _, c := range t.Conflicts() {
				counts[c.Kind]++
			}
			for _, k := range revision.Kinds() {
				set(conflictsGauge, float64(counts[k.String()]), name, k.String())
			}
			continue
		}
		if p := source.Program(); p != nil {
			collectProgram(metrics, name, p.Status())
		}
		if shared, standing := source.Fleet(); shared != nil {
			set(fleetUpGauge, oneIf(standing.Together), name)
			set(membersGauge, float64(len(standing.Members)), name)
		}
		for _, era := range []revision.Era{revision.Legacy, revision.Modern} {
			set(feedUpGauge, oneIf(report.FeedUp(source, era)), name, era.String())
		}
	}
}

// oneIf is 1 if something is so, and 0 if not.
func oneIf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// collectProgram gives what is counted of a program. With another program the counters begin anew.
func collectProgram(metrics chan<- prometheus.Metric, name string, s program.Status) {
	metrics <- prometheus.MustNewConstMetric(processesGauge, prometheus.GaugeValue, float64(len(s.Processes)), name)
	count := func(d *prometheus.Desc, n uint64, label string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), name, label)
	}
	count(startsCounter, s.Starts, "started")
	count(startsCounter, s.Failed, "failed")
	count(exitsCounter, s.Stopped, "stopped")
	count(exitsCounter, s.Died, "died")
}
