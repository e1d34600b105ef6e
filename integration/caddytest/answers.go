package caddytest

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// IsStale reports whether an answer came from the cache after its time.
func IsStale(a *fixture.Answer) bool {
	s := a.CacheStatus()
	return a.Status == http.StatusOK && s.Hit && s.Detail == "stale"
}

// MarkOf returns the mark of a list, "" if it is empty or none.
func MarkOf(a *fixture.Answer, method string) string {
	items := a.Items(scripted.ItemsKey(method))
	if len(items) == 0 {
		return ""
	}
	var item struct{ Description string }
	if json.Unmarshal([]byte(items[0]), &item) != nil {
		return ""
	}
	return item.Description
}

// IsHit reports whether a list came from the cache, whole and with that mark.
func IsHit(a *fixture.Answer, method, mark string) bool {
	return a.Status == http.StatusOK && a.CacheStatus().Hit && MarkOf(a, method) == mark
}

// WantHit fails unless a list came from the cache with that mark.
func WantHit(t testing.TB, a *fixture.Answer, method, mark string) {
	t.Helper()
	if !IsHit(a, method, mark) {
		t.Errorf("want a hit of %s with mark %s, got %s", method, mark, a)
	}
}

// WantForwarded fails if an answer came from the cache.
func WantForwarded(t testing.TB, a *fixture.Answer) {
	t.Helper()
	if s := a.CacheStatus(); s.Hit || s.Forward == "" {
		t.Errorf("want a forwarded answer, got %s", a)
	}
}

// WantEnded fails unless lists of a client's session are refused as those of a
// session that the upstream does not have.
func WantEnded(t testing.TB, c *fixture.Raw) {
	t.Helper()
	for range 2 {
		a := c.List(scripted.ToolsList)
		WantForwarded(t, a)
		if a.Status != http.StatusNotFound {
			t.Errorf("a list of the ended session gave %s", a)
		}
	}
}
