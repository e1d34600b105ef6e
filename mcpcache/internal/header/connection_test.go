package header

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// connectionCases are requests with a Connection header.
var connectionCases = map[string]http.Header{
	"none":                  {"Authorization": {"a"}},
	"keep-alive":            {"Connection": {"keep-alive"}, "Keep-Alive": {"timeout=5"}, "Authorization": {"a"}},
	"Keep-Alive":            {"Connection": {"Keep-Alive"}, "Keep-Alive": {"timeout=5"}},
	"close":                 {"Connection": {"close"}, "Close": {"a"}, "Authorization": {"a"}},
	"a field":               {"Connection": {"Authorization"}, "Authorization": {"a"}, "X-Other": {"a"}},
	"fields":                {"Connection": {" x-a ,, X-B", "authorization"}, "X-A": {"a"}, "X-B": {"a", "b"}, "Authorization": {"a"}},
	"not there":             {"Connection": {"X-A"}},
	"empty":                 {"Connection": {""}, "X-A": {"a"}},
	"no token":              {"Connection": {"X A", "\"X-A\"", ";"}, "X-A": {"a"}},
	"itself":                {"Connection": {"Connection, X-A"}, "X-A": {"a"}},
	"an upgrade":            {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Key": {"a"}},
	"an upgrade and fields": {"Connection": {"keep-alive, upgrade, X-A"}, "Upgrade": {"websocket"}, "X-A": {"a"}},
	"an upgrade to nothing": {"Connection": {"upgrade, X-A"}, "X-A": {"a"}},
	"no upgrade":            {"Connection": {"X-A"}, "Upgrade": {"websocket"}, "X-A": {"a"}},
	"a session":             {"Connection": {"MCP-Session-ID"}, "Mcp-Session-Id": {"s"}},
}

// TestConnectionFieldsAreThoseOfReverseProxy sends each request through
// reverse_proxy as it is, and with its fields removed before: the server gets the
// same.
func TestConnectionFieldsAreThoseOfReverseProxy(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	t.Cleanup(server.Close)
	config, err := caddy.ProvisionContext(&caddy.Config{
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{Level: "FATAL"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(config)
	t.Cleanup(cancel)
	mod, err := ctx.LoadModuleByID("http.handlers.reverse_proxy",
		json.RawMessage(fmt.Sprintf(`{"upstreams":[{"dial":%q}]}`, server.Listener.Addr())))
	if err != nil {
		t.Fatal(err)
	}
	sent := func(h http.Header) http.Header {
		t.Helper()
		got = nil
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/mcp", nil)
		r.Header = h
		w := httptest.NewRecorder()
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "127.0.0.1")
		if err := mod.(caddyhttp.MiddlewareHandler).ServeHTTP(w, r, nil); err != nil || got == nil {
			t.Fatalf("the proxy failed: %v", err)
		}
		return got
	}
	for name, header := range connectionCases {
		t.Run(name, func(t *testing.T) {
			want := sent(header.Clone())
			removed := header.Clone()
			RemoveConnectionFields(removed)
			left := slices.Sorted(maps.Keys(removed))
			if got := sent(removed); !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("with %v left, the server gets %v, want %v", left, got, want)
			}
			for _, field := range left {
				if want[field] == nil && field != "Upgrade" {
					t.Errorf("%s is left, which the server does not get", field)
				}
			}
		})
	}
}
