package caddytest

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// MetricPrefix begins the names of all our metrics.
const MetricPrefix = "caddy_mcp_cache_"

// Scrape returns the handlers' series at Caddy's metrics endpoint, by name and
// labels without the common prefix.
func Scrape(t testing.TB) map[string]float64 {
	t.Helper()
	status, body := AskAdmin(t, http.MethodGet, "/metrics", nil)
	if status != http.StatusOK {
		t.Fatalf("metrics gave %d: %s", status, body)
	}
	series := make(map[string]float64)
	for line := range strings.Lines(string(body)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(name, MetricPrefix) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("metrics have %q: %v", line, err)
		}
		series[strings.TrimPrefix(name, MetricPrefix)+"}"] = number
	}
	return series
}

// Metric returns one series, which has to be there.
func Metric(t testing.TB, name string) float64 {
	t.Helper()
	value, ok := Scrape(t)[name]
	if !ok {
		t.Fatalf("there is no metric %s", name)
	}
	return value
}

// OutcomeCounts returns how many requests were counted, by outcome.
func OutcomeCounts(t testing.TB) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for name, value := range Scrape(t) {
		if strings.HasPrefix(name, "requests_total{") && strings.Contains(name, `handler="mcp_cache"`) && value > 0 {
			_, outcome, _ := strings.Cut(name, `outcome="`)
			counts[strings.TrimSuffix(outcome, `"}`)] += int(value)
		}
	}
	return counts
}
