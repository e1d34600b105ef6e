package mcpcache

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// operated returns a handler of that name with a cache of its own, in front of
// a [listServer]. It is not registered, and its feeds do not run.
func operated(t *testing.T, name string) (*Handler, *listServer) {
	t.Helper()
	h := &Handler{Name: name}
	var err error
	if h.settings, err = h.newSettings(); err != nil {
		t.Fatal(err)
	}
	upstream := &listServer{lists: make(map[string][]string)}
	h.logger, h.metrics = zap.NewNop(), newRequestMetrics(name)
	h.endpointURL = "http://127.0.0.1:1/mcp"
	if h.shared, err = newShared(name, h.endpointURL, &user{settings: h.settings, logger: h.logger}); err != nil {
		t.Fatal(err)
	}
	h.shared.transport.Use(upstream)
	t.Cleanup(func() {
		endShared(t, h.shared)
	})
	return h, upstream
}

// goLive registers handlers until the test ends.
func goLive(t *testing.T, handlers ...*Handler) {
	t.Helper()
	for _, h := range handlers {
		live.add(h)
		t.Cleanup(func() { live.remove(h) })
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
		Kind: k, Revision: r, Partition: cache.Public, Mark: h.shared.cache.Mark(k),
		Body: message.Single(k, page), Fetched: time.Now().Add(-age), Lifetime: time.Minute,
	}
	h.shared.cache.Pin(e)
	return e
}

// listServer is an upstream of the modern era with lists that a test sets, by
// method. A method without a list is not offered.
type listServer struct {
	mu    sync.Mutex
	lists map[string][]string
	calls map[string]int
	// hold makes it wait before it answers a list.
	hold chan struct{}
}

func (s *listServer) set(method string, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[method] = names
}

func (s *listServer) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (s *listServer) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	var question struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		return caddyhttp.Error(http.StatusBadRequest, err)
	}
	s.mu.Lock()
	names, offered := s.lists[question.Method]
	if s.calls == nil {
		s.calls = make(map[string]int)
	}
	s.calls[question.Method]++
	hold := s.hold
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if question.Method == "server/discover" {
		_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],`+
			`"capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"s","version":"1"}}}`, question.ID)
		return err
	}
	if !offered {
		w.WriteHeader(http.StatusNotFound)
		_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, question.ID)
		return err
	}
	if hold != nil {
		<-hold
	}
	kind, _ := revision.KindOf(question.Method)
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = fmt.Sprintf(`{%q:%q,"title":"T"}`, kind.IDKey(), name)
	}
	_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%q:[%s]}}`,
		question.ID, kind.ItemsKey(), strings.Join(items, ","))
	return err
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
