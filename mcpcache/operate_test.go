package mcpcache

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// operated returns a handler of that name with a cache of its own. It is not
// registered, and its feeds do not run.
func operated(t *testing.T, name string) *Handler {
	t.Helper()
	h := &Handler{Name: name}
	var err error
	if h.settings, err = h.newSettings(); err != nil {
		t.Fatal(err)
	}
	h.endpointURL = "http://127.0.0.1:1/mcp"
	h.metrics, h.observer = newRequestMetrics(name), &observer{name: name}
	upstream := stand(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		return nil
	})
	h.backend = &backend.Tenant{Upstream: upstream, Settings: h.settings.backend, Logger: zap.NewNop()}
	if h.backend.Backend, err = backend.New(name, h.endpointURL, h.backend); err != nil {
		t.Fatal(err)
	}
	h.endpoint = exchange.New(h.settings.exchange, h.backend, &requestObserver{name, h.metrics, &h.observer.spans}, zap.NewNop())
	t.Cleanup(func() {
		if err := h.backend.Destruct(); err != nil {
			t.Error(err)
		}
		<-h.backend.Ended()
	})
	return h
}

// goLive registers handlers until the test ends.
func goLive(t *testing.T, handlers ...*Handler) {
	t.Helper()
	for _, h := range handlers {
		report.Live.Add(reported{h})
		t.Cleanup(func() { report.Live.Remove(reported{h}, collectors.forget) })
	}
}

// pin gives a handler a snapshot of a list of those items, fetched before.
func pin(t *testing.T, h *Handler, r revision.Revision, k revision.Kind, age time.Duration, items ...string) *cache.Entry {
	t.Helper()
	page, err := message.ParsePage(fmt.Appendf(nil, `{%q:[%s]}`, k.ItemsKey(), strings.Join(items, ",")), k)
	if err != nil {
		t.Fatal(err)
	}
	e := &cache.Entry{
		Kind: k, Revision: r, Partition: cache.Public, Mark: h.backend.Cache.Mark(k),
		Body: message.Single(k, page), Fetched: time.Now().Add(-age), Lifetime: time.Minute,
	}
	h.backend.Cache.Pin(e)
	return e
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
		if err := registerMetrics(registry); err != nil {
			t.Fatal(err)
		}
	}
	return registry
}
