package telemetry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// goLive registers a source of that name until the test ends.
func goLive(t *testing.T, name string) *reporttest.Source {
	t.Helper()
	source := reporttest.New(t, name)
	report.Live.Add(source)
	t.Cleanup(func() { report.Live.Remove(source, Forget) })
	return source
}

// eventless returns the telemetry of the handler of that name, which cannot have
// events.
func eventless(name string) *Telemetry {
	return &Telemetry{name: name, series: newRequestSeries(name)}
}

// endpoint returns one in front of a server that answers nothing, which tells t
// of requests.
func endpoint(t *testing.T, tells *Telemetry) *exchange.Endpoint {
	t.Helper()
	ref := &backend.Ref{
		Upstream: caddyhttp.MiddlewareHandler(nothing{}), Settings: backend.Defaults(),
		Store: storetest.NewTrial(), Logger: zap.NewNop(),
	}
	var err error
	if ref.Backend, err = backend.New(t.Name(), "http://localhost/mcp", ref); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ref.Destruct(); err != nil {
			t.Error(err)
		}
		<-ref.Ended()
	})
	return exchange.New(exchange.Defaults(), ref, tells.Requests(), zap.NewNop())
}

// nothing is a server that has nothing to say.
type nothing struct{}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (nothing) ServeHTTP(w http.ResponseWriter, _ *http.Request, _ caddyhttp.Handler) error {
	w.WriteHeader(http.StatusNotFound)
	return nil
}

// request returns a request to the endpoint with that body.
func request(t *testing.T, method, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

// eventsApp returns an events app of a configuration that is being provisioned.
func eventsApp(t *testing.T) (*caddyevents.App, caddy.Context) {
	t.Helper()
	base, err := caddy.ProvisionContext(&caddy.Config{Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{
		"default": {BaseLog: caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`), Level: "ERROR"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(base)
	t.Cleanup(cancel)
	app, err := ctx.App("events")
	if err != nil {
		t.Fatal(err)
	}
	return app.(*caddyevents.App), ctx
}

// series returns the values of a registry's series by name and labels, such as
// `changes_total{handler="a",kind="tools",source="feed"}`, without the common
// prefix. Of a histogram it is the count.
func series(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			values[seriesName(family.GetName(), m)] = seriesValue(m)
		}
	}
	return values
}

func seriesName(family string, m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	slices.Sort(labels)
	return strings.TrimPrefix(family, "caddy_mcp_cache_") + "{" + strings.Join(labels, ",") + "}"
}

func seriesValue(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Histogram != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetGauge().GetValue()
}

// registered returns a registry as a new configuration has it.
func registered(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for range 2 { // as two handlers of one configuration do
		if err := Register(registry); err != nil {
			t.Fatal(err)
		}
	}
	return registry
}
