package exchange

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

const callAnswer = `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"3"}]}}`

// proxyTo returns a reverse_proxy with its defaults.
func proxyTo(tb testing.TB, addr string) *reverseproxy.Handler {
	tb.Helper()
	ctx, err := caddy.ProvisionContext(&caddy.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	proxy := &reverseproxy.Handler{Upstreams: reverseproxy.UpstreamPool{{Dial: addr}}}
	if err := proxy.Provision(ctx); err != nil {
		tb.Fatal(err)
	}
	return proxy
}

// BenchmarkForward measures what a forwarded call costs, next to reverse_proxy
// alone. Both include a server on a real socket that does next to nothing.
func BenchmarkForward(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = contentJSON
		_, _ = io.WriteString(w, callAnswer)
	}))
	defer server.Close()
	proxy := proxyTo(b, strings.TrimPrefix(server.URL, "http://"))
	h := pinnedFace(b, config{}, 5)
	h.backend.Upstream = proxy
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}`
	for name, handler := range map[string]caddyhttp.MiddlewareHandler{"alone": proxy, "through": h} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(call))
				r.Header = http.Header{
					"Content-Type": {"application/json"}, "Accept": {bothTypes}, "User-Agent": {"bench"}, "Accept-Encoding": {"gzip"},
					"Mcp-Protocol-Version": {"2025-11-25"}, "Mcp-Session-Id": {"session"},
				}
				repl := caddy.NewReplacer()
				r = caddyhttp.PrepareRequest(r, repl, nil, new(caddyhttp.Server))
				w := &discard{header: make(http.Header)}
				if err := handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(nil)); err != nil || w.bytes != len(callAnswer) {
					b.Fatalf("got %d bytes, error %v", w.bytes, err)
				}
			}
		})
	}
}
