package exchange

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
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
			removeConnectionFields(removed)
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

// TestConnectionFieldsDoNotCount has callers name what tells them apart in
// Connection: the server sees nobody, so nobody is let in, barred or given
// anything by that name.
func TestConnectionFieldsDoNotCount(t *testing.T) {
	const legacy = revision.V20251125
	hop := func(r *http.Request, name string) *http.Request {
		r.Header.Set("Connection", name)
		return r
	}
	t.Run("credentials", func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		seen := ""
		for range 2 {
			f.as(t, "Bearer a", hop(modernRequest("tools/list", ""), "Authorization"), func(w http.ResponseWriter, r *http.Request) error {
				seen += r.Header.Get("Authorization") + r.Header.Get("Connection")
				return listing("anybody's")(w, r)
			})
		}
		if seen != "" {
			t.Errorf("the upstream saw %q", seen)
		}
		f.pinTools(t)
		if w := f.as(t, "Bearer a", modernRequest("tools/list", ""), refusing); w.Code != http.StatusTeapot {
			t.Errorf("with its credentials the caller got %d, %q: %s", w.Code, w.Header().Get("Cache-Status"), w.Body)
		}
	})
	t.Run("session", func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		f.session(t, "s", legacy)
		f.backend.Admission.EndSession("s")
		f.upstreamIs(listing("anybody's"))
		f.serve(t, hop(legacyRequest(legacy, "s", "tools/list"), "Mcp-Session-Id"))
		f.pinTools(t)
		f.upstreamIs(refusing)
		if w := f.serve(t, legacyRequest(legacy, "s", "tools/list")); w.Code != http.StatusTeapot {
			t.Errorf("the session that has ended got %d, %q", w.Code, w.Header().Get("Cache-Status"))
		}
	})
	t.Run("what makes it valid", func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0), Admit: "all"})
		f.pinTools(t)
		for _, name := range []string{"Content-Type", "Accept", "MCP-Protocol-Version", "Mcp-Method"} {
			f.upstreamIs(refusing)
			if w := f.serve(t, hop(modernRequest("tools/list", ""), name)); w.Code != http.StatusTeapot {
				t.Errorf("without %s: %d, %q", name, w.Code, w.Header().Get("Cache-Status"))
			}
		}
	})
	t.Run("in a look", func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		f.backend.Admission.AdmitContext(f.contextOf(withAuthorization("Bearer a")), revision.V20260728, 0, f.backend.Admission.Ticket(), time.Now().Add(time.Hour))
		f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "cached")
		if _, ok := f.Look(httptest.NewRecorder(), withAuthorization("Bearer a")); !ok {
			t.Error("the caller would get nothing")
		}
		if _, ok := f.Look(httptest.NewRecorder(), hop(withAuthorization("Bearer a"), "Authorization")); ok {
			t.Error("whom the server would not see would get a list")
		}
	})
	t.Run("of a page", func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		r := hop(modernRequest("tools/list", ""), "Origin")
		r.Header.Set("Origin", "https://evil.example")
		if w := f.serve(t, r); w.Code != http.StatusForbidden {
			t.Errorf("a foreign page got %d", w.Code)
		}
	})
}

func withAuthorization(value string) *http.Request {
	r := modernRequest("tools/list", "")
	r.Header.Set("Authorization", value)
	return r.WithContext(context.Background())
}
