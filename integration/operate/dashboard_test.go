package operate

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

var (
	sample        = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? \S+$`)
	sampleLabel   = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
	histogramPart = regexp.MustCompile(`_(?:bucket|sum|count)$`)
	description   = regexp.MustCompile(`^Desc\{fqName: "([^"]+)".*variableLabels: \{([^{}]*)\}\}$`)
)

// registered returns the metrics that are registered with the configuration in
// force, also those of which there is no series yet.
func registered() offer {
	descs := make(chan *prometheus.Desc)
	ctx := caddy.ActiveContext()
	go func() {
		defer close(descs)
		ctx.GetMetricsRegistry().Describe(descs)
	}()
	o := make(offer)
	for desc := range descs {
		if match := description.FindStringSubmatch(desc.String()); match != nil {
			o.add(match[1], strings.FieldsFunc(match[2], func(r rune) bool { return r == ',' })...)
		}
	}
	return o
}

// exposed returns what is at Caddy's metrics endpoint.
func exposed(t *testing.T) offer {
	t.Helper()
	status, body := caddytest.AskAdmin(t, http.MethodGet, "/metrics", nil)
	if status != http.StatusOK {
		t.Fatalf("metrics gave %d: %s", status, body)
	}
	o := make(offer)
	for line := range strings.Lines(string(body)) {
		match := sample.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		o.add(match[1])
		for _, pair := range sampleLabel.FindAllStringSubmatch(match[2], -1) {
			o.addValue(match[1], pair[1], pair[2])
		}
	}
	return o
}

// offered uses the example with the dashboard for a while and returns what
// Prometheus then knows of it.
func offered(t *testing.T) offer {
	t.Helper()
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	wantScraped(t, w.StartExample(t, "metrics"))
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	caddytest.AwaitReady(t, "mcp_cache")
	w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) { x.Error(http.StatusInternalServerError, -32603, "failing") })
	caddytest.RefreshNow(t, "tools")
	w.Changed(scripted.Feeds, scripted.ToolsList)
	fixture.Await(t, "the change to be counted", func() bool { return len(exposed(t)["caddy_mcp_cache_changes_total"]) > 0 })
	o, known := exposed(t), registered()
	for metric := range o {
		family := histogramPart.ReplaceAllString(metric, "")
		if strings.HasPrefix(metric, caddytest.MetricPrefix) && known[metric] == nil && known[family] == nil {
			t.Errorf("%s is exposed and not registered", metric)
		}
	}
	for metric, labels := range known {
		if o[metric] == nil {
			for label := range labels {
				o.add(metric, label)
			}
		}
	}
	// Of several servers, which the example does not have, each is a handler, too.
	o.addValue(caddytest.MetricPrefix+"requests_total", "handler", ".+/.+")
	for metric := range o {
		o.add(metric, "job", "instance") // Prometheus adds these to what it scrapes
	}
	return o
}

var scrapeTarget = regexp.MustCompile(`(?m)^ +- targets: \["([^"]+)"\]$`)

// wantScraped fails unless Prometheus asks where Caddy's admin endpoint is.
func wantScraped(t *testing.T, adapted []byte) {
	t.Helper()
	var config struct{ Admin struct{ Listen string } }
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../examples/metrics/prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	if asked := submatches(scrapeTarget, string(text)); !slices.Equal(asked, []string{config.Admin.Listen}) {
		t.Errorf("Prometheus asks %q, Caddy's admin endpoint is %q", asked, config.Admin.Listen)
	}
	if !strings.Contains(string(text), "\n  - rules.yml\n") {
		t.Error("Prometheus does not read rules.yml")
	}
}

// dashboard is what these tests look at of a dashboard for Grafana.
type dashboard struct {
	Title         string
	UID           string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ Type, UID string }
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct {
		RefID, Expr, LegendFormat string
		Datasource                struct{ Type, UID string }
	}
}

func readDashboard(t *testing.T) *dashboard {
	t.Helper()
	text, err := os.ReadFile("../../examples/metrics/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	d := new(dashboard)
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatalf("reading the dashboard: %v", err)
	}
	return d
}

const dataSource = "${DS_PROMETHEUS}"

// TestDashboardIsWellFormed reads the dashboard as Grafana would.
func TestDashboardIsWellFormed(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 42 || len(d.Panels) == 0 {
		t.Errorf("the dashboard is %q, %q, version %d, with %d panels", d.Title, d.UID, d.SchemaVersion, len(d.Panels))
	}
	if first := d.Templating.List[0]; first.Name != "DS_PROMETHEUS" || first.Type != "datasource" {
		t.Errorf("the first variable is %s, not the data source", first.Name)
	}
	ids := make(map[int]bool)
	places := make(map[[2]int]string)
	for _, p := range d.Panels {
		if p.ID <= 0 || ids[p.ID] {
			t.Errorf("%q has the id %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Title == "" || p.Type == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != dataSource {
			t.Errorf("panel %d lacks a title, a type, a unit or the data source: %+v", p.ID, p)
		}
		wantTargets(t, p)
		g := p.GridPos
		if g.W <= 0 || g.H <= 0 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%q does not fit: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, taken := places[[2]int{x, y}]; taken {
					t.Fatalf("%q lies over %q", p.Title, other)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
	}
}

func wantTargets(t *testing.T, p panel) {
	t.Helper()
	refs := make(map[string]bool)
	for _, target := range p.Targets {
		if target.Expr == "" || target.RefID == "" || refs[target.RefID] || target.Datasource.UID != dataSource {
			t.Errorf("%q has the target %+v", p.Title, target)
		}
		refs[target.RefID] = true
	}
	if len(refs) == 0 {
		t.Errorf("%q shows nothing", p.Title)
	}
}

var (
	legendLabel  = regexp.MustCompile(`\{\{\s*([^{}]*?)\s*\}\}`)
	variableUse  = regexp.MustCompile(`\$\{?([a-zA-Z_]\w*)`)
	labelValues  = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	summaryLabel = regexp.MustCompile(`\$labels\.(\w+)`)
)

// submatches returns the first group of each match.
func submatches(pattern *regexp.Regexp, text string) (found []string) {
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// TestDashboardShowsRealMetrics holds every expression in the dashboard and in
// the rules against what the example's Caddy exposes, also with a name that it
// does not.
func TestDashboardShowsRealMetrics(t *testing.T) {
	o := offered(t)
	wantReal := func(where, text string, labels ...string) {
		t.Helper()
		if err := o.check(text, labels...); err != nil {
			t.Errorf("%s: %v in %s", where, err, text)
		}
		if made := strings.ReplaceAll(text, caddytest.MetricPrefix, caddytest.MetricPrefix+"made_up_"); made != text && o.check(made) == nil {
			t.Errorf("%s: made-up metrics go unnoticed in %s", where, made)
		}
	}
	d := readDashboard(t)
	variables := []string{"__rate_interval"}
	wantVariables := func(where, text string) {
		t.Helper()
		for _, used := range submatches(variableUse, text) {
			if !slices.Contains(variables, used) {
				t.Errorf("%s: there is no variable %s in %s", where, used, text)
			}
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			var query struct{ Query string }
			match := []string(nil)
			if err := json.Unmarshal(v.Query, &query); err == nil {
				match = labelValues.FindStringSubmatch(query.Query)
			}
			if match == nil {
				t.Fatalf("the variable %s has the query %s", v.Name, v.Query)
			}
			wantReal("the variable "+v.Name, match[1], match[2])
			wantVariables("the variable "+v.Name, match[1])
		}
		variables = append(variables, v.Name)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			wantReal(p.Title, target.Expr, submatches(legendLabel, target.LegendFormat)...)
			wantVariables(p.Title, target.Expr)
		}
	}
	for _, r := range readRules(t) {
		wantReal(r.alert, r.expr, submatches(summaryLabel, r.text)...)
	}
}
