package transports_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	_ "github.com/caddy-mcp/mcp-cache/mcpcache/transports"
)

// ownHost has reverse_proxy use the transport.
const ownHost = `"transport":{"protocol":"upstream_host"}`

// newProxy provisions a reverse_proxy of these members to these addresses.
func newProxy(tb testing.TB, members string, addrs ...string) *reverseproxy.Handler {
	tb.Helper()
	ctx, err := caddy.ProvisionContext(&caddy.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	upstreams := make([]string, len(addrs))
	for i, addr := range addrs {
		upstreams[i] = fmt.Sprintf(`{"dial":%q}`, addr)
	}
	raw := fmt.Appendf(nil, `{"upstreams":[%s],%s}`, strings.Join(upstreams, ","), members)
	module, err := ctx.LoadModuleByID("http.handlers.reverse_proxy", raw)
	if err != nil {
		tb.Fatal(err)
	}
	proxy := module.(*reverseproxy.Handler)
	tb.Cleanup(func() {
		if err := proxy.Cleanup(); err != nil {
			tb.Error(err)
		}
	})
	return proxy
}

// serve serves a handler, and returns its address.
func serve(tb testing.TB, h http.HandlerFunc) string {
	tb.Helper()
	server := httptest.NewServer(h)
	tb.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// tellHost answers with what a request says about hosts.
func tellHost(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s %s", r.Host, r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-More"))
}

// ask sends a request for another host through a proxy.
func ask(tb testing.TB, proxy caddyhttp.MiddlewareHandler) string {
	tb.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "http://public.example.com/mcp", strings.NewReader("body"))
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "User-Agent": {"test"},
		"Mcp-Protocol-Version": {"2025-11-25"}, "Mcp-Session-Id": {"session"}, "X-More": {"kept"},
	}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	if err := proxy.ServeHTTP(w, r, caddyhttp.HandlerFunc(nil)); err != nil {
		tb.Fatal(err)
	}
	if r.Host != "public.example.com" {
		tb.Errorf("the client's request is for %q now", r.Host)
	}
	return w.Body.String()
}

func TestUpstreamHost(t *testing.T) {
	addr := serve(t, tellHost)
	const kept = " public.example.com kept"
	for name, c := range map[string]struct{ members, want string }{
		"alone":           {ownHost, addr + kept},
		"with a header":   {`"headers":{"request":{"set":{"X-More":["another"]}}},` + ownHost, addr + " public.example.com another"},
		"over header_up":  {`"headers":{"request":{"set":{"Host":["another.example.com"]}}},` + ownHost, addr + kept},
		"other transport": {`"transport":{"protocol":"http"}`, "public.example.com" + kept},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, newProxy(t, c.members, addr)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// closedAddr returns an address at which nobody listens.
func closedAddr(tb testing.TB) string {
	tb.Helper()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		tb.Fatal(err)
	}
	return closed.Addr().String()
}

// retries has a request be sent to the next upstream if it cannot be to the first one.
const retries = `"load_balancing":{"retries":1,"selection_policy":{"policy":"first"}},"health_checks":{"passive":{"fail_duration":"1m"}},`

// TestUpstreamHostOfAnotherAttempt has the first upstream fail: the request to
// the second one names that one.
func TestUpstreamHostOfAnotherAttempt(t *testing.T) {
	addr := serve(t, tellHost)
	if got, want := ask(t, newProxy(t, retries+ownHost, closedAddr(t), addr)), addr+" public.example.com kept"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestHealthChecksKeepTheirHost shows that a check's own Host is left alone.
func TestHealthChecksKeepTheirHost(t *testing.T) {
	hosts := make(chan string, 1)
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case hosts <- r.Host:
		default: // the first one is enough
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	newProxy(t, `"health_checks":{"active":{"uri":"/health","headers":{"Host":["check.example.com"]}}},`+ownHost, addr)
	select {
	case got := <-hosts:
		if got != "check.example.com" {
			t.Errorf("a health check is for %q", got)
		}
	case <-ctx.Done():
		t.Fatal("no health check came")
	}
}

// hostByHeader is what the transport takes the place of.
const hostByHeader = `"headers":{"request":{"set":{"Host":["{http.reverse_proxy.upstream.hostport}"]}}}`

// TestUpstreamHostCopiesNoHeader compares with header_up, which costs an
// allocation for each field of a request.
func TestUpstreamHostCopiesNoHeader(t *testing.T) {
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	count := func(members string) float64 {
		proxy := newProxy(t, members, addr)
		return testing.AllocsPerRun(200, func() { ask(t, proxy) })
	}
	const fields = 6 // of the request, at least
	if byHeader, own := count(hostByHeader), count(ownHost); own > byHeader-fields {
		t.Errorf("%.0f allocations, with header_up %.0f", own, byHeader)
	}
}

// BenchmarkHost measures a request through reverse_proxy with the Host left as
// it is, set by header_up, and set by the transport.
func BenchmarkHost(b *testing.B) {
	addr := serve(b, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	for _, c := range []struct{ name, members string }{
		{"left", `"transport":{"protocol":"http"}`}, {"header_up", hostByHeader}, {"transport", ownHost},
	} {
		proxy := newProxy(b, c.members, addr)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(b, proxy)
			}
		})
	}
}
