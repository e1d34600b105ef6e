package site

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestAddressOf shows a visitor the URL that the browser has, however the request came here.
func TestAddressOf(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *http.Request)
		want   string
	}{
		"plain":    {func(*http.Request) {}, "http://mcp.example.com/mcp"},
		"TLS":      {func(r *http.Request) { r.TLS = new(tls.ConnectionState) }, "https://mcp.example.com/mcp"},
		"port":     {func(r *http.Request) { r.Host = "[::1]:8080" }, "http://[::1]:8080/mcp"},
		"odd path": {func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a\n<b>", "" }, "http://mcp.example.com/a%0A%3Cb%3E"},
		"forwarded by nobody that is trusted": {func(r *http.Request) {
			r.Header = http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"evil.example"}}
		}, "http://mcp.example.com/mcp"},
		"forwarded": {func(r *http.Request) {
			r.Header = http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"mcp.example.org"}}
			caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, true)
		}, "https://mcp.example.org/mcp"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://mcp.example.com/mcp?key=secret", nil)
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
		original := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
		c.change(r)
		original.URL = r.URL
		r = r.WithContext(context.WithValue(r.Context(), caddyhttp.OriginalRequestCtxKey, original))
		if got := AddressOf(r); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	stripped := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://mcp.example.com/team/mcp", nil)
	stripped = caddyhttp.PrepareRequest(stripped, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
	stripped.URL.Path = "/mcp"
	if got := AddressOf(stripped); got != "http://mcp.example.com/team/mcp" {
		t.Errorf("without a part of the path: %q", got)
	}
}
