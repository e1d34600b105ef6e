package telemetry

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/program"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// metricNames are what dashboards and alerts depend on.
var metricNames = []string{
	"caddy_mcp_cache_age_seconds", "caddy_mcp_cache_bytes", "caddy_mcp_cache_changes_total",
	"caddy_mcp_cache_feed_up", "caddy_mcp_cache_fleet_members", "caddy_mcp_cache_fleet_up", "caddy_mcp_cache_items", "caddy_mcp_cache_partitions",
	"caddy_mcp_cache_program_exits_total", "caddy_mcp_cache_program_processes", "caddy_mcp_cache_program_starts_total",
	"caddy_mcp_cache_refresh_duration_seconds", "caddy_mcp_cache_refreshes_total",
	"caddy_mcp_cache_request_duration_seconds", "caddy_mcp_cache_requests_total", "caddy_mcp_cache_rule_errors_total",
	"caddy_mcp_cache_view_bytes", "caddy_mcp_cache_views",
}

func TestMetricsAreNamedWell(t *testing.T) {
	source := goLive(t, "named")
	source.Runs, source.Together = new(reporttest.Program), new(persist.Fleet)
	eventless("named")
	source.Pin(t, revision.V20260728, revision.Tools, time.Second, `{"name":"a"}`)
	countRefresh("named", revision.Tools, "changed", time.Second)
	countChanges("named", revision.SetOf(revision.Tools), sourceFeed)
	registry := registered(t)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("linter: %v, %v", problems, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	if !slices.Equal(names, metricNames) {
		t.Errorf("metrics are %q", names)
	}
}

// Programs are counted by their handlers; of other servers there is nothing to count.
func TestProgramsAreCounted(t *testing.T) {
	goLive(t, "other")
	goLive(t, "runs").Runs = &reporttest.Program{Is: program.Status{
		Starts: 5, Failed: 4, Stopped: 3, Died: 2, Processes: make([]program.Process, 1),
	}}
	got := series(t, registered(t))
	want := map[string]float64{
		`program_starts_total{handler="runs",result="started"}`: 5,
		`program_starts_total{handler="runs",result="failed"}`:  4,
		`program_exits_total{handler="runs",reason="stopped"}`:  3,
		`program_exits_total{handler="runs",reason="died"}`:     2,
		`program_processes{handler="runs"}`:                     1,
	}
	for name, value := range got {
		if is, known := want[name]; strings.HasPrefix(name, "program_") && (!known || value != is) {
			t.Errorf("%s is %v, want %v", name, value, is)
		}
	}
	for name := range want {
		if _, told := got[name]; !told {
			t.Errorf("there is no %s", name)
		}
	}
}

// Where a store is shared, it is told whether instances are together, and how many.
func TestFleetIsCounted(t *testing.T) {
	goLive(t, "its own")
	goLive(t, "alone").Together = new(persist.Fleet)
	together := goLive(t, "together")
	together.Together = new(persist.Fleet)
	together.FleetStatus = fleet.Status{Together: true, Members: []string{"a", "b", "c"}}
	got := series(t, registered(t))
	want := map[string]float64{
		`fleet_up{handler="alone"}`: 0, `fleet_members{handler="alone"}`: 0,
		`fleet_up{handler="together"}`: 1, `fleet_members{handler="together"}`: 3,
	}
	maps.DeleteFunc(got, func(name string, _ float64) bool { return !strings.HasPrefix(name, "fleet_") })
	if !maps.Equal(got, want) {
		t.Errorf("of fleets there is %v, want %v", got, want)
	}
}

// TestFailingRulesAreCounted has a matcher fail for the rules of one of two handlers.
func TestFailingRulesAreCounted(t *testing.T) {
	goLive(t, "rules")
	goLive(t, "other")
	of := eventless("rules")
	eventless("other")
	of.RuleFailed()
	of.RuleFailed()
	for name, want := range map[string]float64{"rules": 2, "other": 0} {
		if got := testutil.ToFloat64(collectors.ruleErrors.WithLabelValues(name)); got != want {
			t.Errorf("%s: %v failures are counted, want %v", name, got, want)
		}
	}
}

// TestLabelsAreClosed has clients make up methods: there are as many series as
// before.
func TestLabelsAreClosed(t *testing.T) {
	goLive(t, "closed")
	e := endpoint(t, eventless("closed"))
	registry := registered(t)
	before := series(t, registry)
	methods := slices.Concat(outcome.Methods[:], []string{"", "tools/List", "x", "notifications/x", "OPTIONS", "\xff", "ping\n"})
	counted := 0.0
	for range 2000 {
		method := methods[rand.IntN(len(methods))]
		if rand.IntN(3) == 0 {
			method = fmt.Sprint("made-up-", rand.Int())
		}
		verb := []string{"GET", "POST", "POST", "DELETE", "PUT", "MADE-UP", "initialize"}[rand.IntN(7)]
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, method)
		if err := e.ServeHTTP(httptest.NewRecorder(), request(t, verb, body), nil); err != nil {
			t.Fatal(err)
		}
		counted++
	}
	after := series(t, registry)
	total := 0.0
	for name, value := range after {
		if _, old := before[name]; !old {
			t.Errorf("%s is new", name)
		}
		if strings.HasPrefix(name, "requests_total{") && strings.Contains(name, `"closed"`) {
			total += value
		}
	}
	if total != counted {
		t.Errorf("counted %v requests of %v", total, counted)
	}
}

// TestEverySeriesGoesWithItsHandler has a handler count all there is to count.
func TestEverySeriesGoesWithItsHandler(t *testing.T) {
	source := goLive(t, "busy")
	eventless("busy")
	registry := registered(t)
	for _, result := range refreshResults {
		for _, k := range revision.Kinds() {
			countRefresh("busy", k, result, time.Second)
		}
	}
	for _, source := range changeSources {
		countChanges("busy", revision.SetOf(append(revision.Kinds(), revision.Reads)...), source)
	}
	kinds := len(revision.Kinds())
	counted := outcome.Count*(len(outcome.Methods)+1) + kinds*(len(refreshResults)+1+len(changeSources))
	of := func() (n int) {
		for s := range series(t, registry) {
			if strings.Contains(s, `handler="busy"`) && !strings.HasPrefix(s, "partitions") {
				n++
			}
		}
		return n
	}
	if n := of(); n < counted {
		t.Fatalf("%d series, want at least %d", n, counted)
	}
	report.Live.Remove(source, Forget)
	if n := of(); n != 0 {
		t.Errorf("%d series are left", n)
	}
}

// TestSeriesGoWithTheirHandler removes a handler: nothing of it is left, not
// even when something of it is still to be counted.
func TestSeriesGoWithTheirHandler(t *testing.T) {
	gone := goLive(t, "gone")
	goLive(t, "stays")
	tells := []*Telemetry{eventless("gone"), eventless("stays")}
	registry := registered(t)
	count := func() {
		for _, tell := range tells {
			tell.series.count[0][outcome.Hit].Inc()
			countRefresh(tell.name, revision.Tools, "failed", time.Second)
			tell.Requests().Noticed(revision.SetOf(revision.Reads), outcome.FromClient)
		}
	}
	of := func(name string) (n int, total float64) {
		for s, value := range series(t, registry) {
			if strings.Contains(s, fmt.Sprintf("handler=%q", name)) {
				n++
				if strings.HasPrefix(s, "requests_total") || strings.HasPrefix(s, "changes_total") || strings.HasPrefix(s, "refreshes_total") {
					total += value
				}
			}
		}
		return n, total
	}
	count()
	n, total := of("gone")
	if staying, same := of("stays"); n == 0 || n != staying || total != 3 || same != 3 {
		t.Fatalf("both handlers should have the same series: %d, %d; %v, %v", n, staying, total, same)
	}
	report.Live.Remove(gone, Forget)
	count()
	if n, _ := of("gone"); n != 0 {
		t.Errorf("%d series are left of a handler that is gone", n)
	}
	if _, total := of("stays"); total != 6 {
		t.Errorf("the other handler's counts are %v, want 6", total)
	}
	if s := series(t, registry)[`changes_total{handler="stays",kind="resources",source="client"}`]; s != 2 {
		t.Errorf("notices of single resources count %v for the kind, want 2", s)
	}
}

// sharing is another source of the same upstream.
type sharing struct{ *reporttest.Source }

// TestReloadsLoseNoCount replaces a handler by one of the same name, as reloads
// do, some of which are rejected.
func TestReloadsLoseNoCount(t *testing.T) {
	upstream := reporttest.New(t, "reloaded")
	source, tells := &sharing{upstream}, eventless("reloaded")
	report.Live.Add(source)
	defer func() { report.Live.Remove(source, Forget) }()
	registry := registered(t)
	for i := range 20 {
		next, tellsNext := &sharing{upstream}, eventless("reloaded")
		report.Live.Add(next)
		fresh := registered(t)
		tells.series.count[0][outcome.Miss].Inc()
		tellsNext.series.count[0][outcome.Miss].Inc()
		countChanges("reloaded", revision.SetOf(revision.Tools), sourceFeed)
		if i%4 == 3 { // rejected
			report.Live.Remove(next, Forget)
			tellsNext.series.count[0][outcome.Miss].Inc()
		} else {
			report.Live.Remove(source, Forget)
			tells.series.count[0][outcome.Miss].Inc() // a request that was in flight
			source, tells, registry = next, tellsNext, fresh
		}
		got := series(t, registry)
		if n := got[`requests_total{handler="reloaded",method="other",outcome="miss"}`]; n != float64(3*(i+1)) {
			t.Fatalf("after %d reloads %v requests are counted, want %d", i+1, n, 3*(i+1))
		}
		if n := got[`changes_total{handler="reloaded",kind="tools",source="feed"}`]; n != float64(i+1) {
			t.Fatalf("after %d reloads %v changes are counted", i+1, n)
		}
	}
}

// TestGauges looks at a handler's gauges: they are its snapshots', and gone
// with it.
func TestGauges(t *testing.T) {
	source := goLive(t, "gauged")
	source.Remembered = 3
	source.Pin(t, revision.V20251125, revision.Tools, time.Hour, `{"name":"a"}`)
	newest := source.Pin(t, revision.V20260728, revision.Tools, 2*time.Second, `{"name":"a"}`, `{"name":"b"}`)
	rules := reporttest.NewPolicy(t, "deny tools a", "ada: deny tools *")
	source.Show(newest, rules.View())
	source.Show(newest, rules.View("ada"))
	registry := registered(t)
	got := series(t, registry)
	for name, want := range map[string]float64{
		`views{handler="gauged"}`:                2,
		`view_bytes{handler="gauged"}`:           float64(len(`{"tools":[{"name":"b"}],"cacheScope":"private"}`) + len(`{"tools":[],"cacheScope":"private"}`)),
		`items{handler="gauged",kind="tools"}`:   2,
		`bytes{handler="gauged",kind="tools"}`:   float64(len(newest.Body.Bytes)),
		`feed_up{era="legacy",handler="gauged"}`: 0,
		`feed_up{era="modern",handler="gauged"}`: 0,
		`partitions{handler="gauged"}`:           3,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, %v; want %v", name, value, ok, want)
		}
	}
	if age := got[`age_seconds{handler="gauged",kind="tools"}`]; age < 2 || age > 3000 {
		t.Errorf("the age is %v, not that of the newest snapshot", age)
	}
	report.Live.Remove(source, Forget)
	for name := range series(t, registry) {
		if strings.Contains(name, `"gauged"`) {
			t.Errorf("%s is left", name)
		}
	}
}

// TestForeignCollector registers with a registry that has a metric of the same
// name: that is an error, no panic.
func TestForeignCollector(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "caddy_mcp_cache_requests_total", Help: "Another."}))
	if err := Register(registry); err == nil {
		t.Error("got no error")
	}
}
