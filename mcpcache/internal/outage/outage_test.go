package outage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outage"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// proxy returns the way to a server through a real reverse_proxy, as feeds take it.
func proxy(t *testing.T, dial, transport string) http.RoundTripper {
	t.Helper()
	way := new(upstream.Transport)
	way.Use(fixture.ReverseProxy(t, dial, transport))
	return way
}

// failure is why a request got no answer.
func failure(t *testing.T, way http.RoundTripper, address string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: way}).Do(req)
	if err == nil {
		_ = res.Body.Close()
		t.Fatalf("%s answers", address)
	}
	return fmt.Errorf("calling tools/list: %w", err)
}

// listen serves a handler, and says where.
func listen(t *testing.T, start func(*httptest.Server), handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(server)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// speak answers every connection with a text.
func speak(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// TestWords has the same words for the same trouble, whether the error comes from net/http
// itself or through reverse_proxy, which wraps less.
func TestWords(t *testing.T) {
	ok := func(http.ResponseWriter, *http.Request) {}
	refused, plain, secure := fixture.FreeAddr(t), listen(t, (*httptest.Server).Start, ok), listen(t, (*httptest.Server).StartTLS, ok)
	cut := listen(t, (*httptest.Server).Start, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	other := speak(t, "220 smtp\r\n")
	for _, c := range []struct{ scheme, address, want string }{
		{"http", refused, "connection refused at " + refused},
		{"http", "nowhere.invalid:80", "the host name nowhere.invalid cannot be found ("},
		{"http", cut, "the connection was cut"},
		{"http", other, "what listens there does not speak HTTP"},
		{"https", plain, "it speaks plain HTTP, not TLS"},
		{"https", secure, "the certificate is not accepted, because it is signed by an authority that this machine does not know"},
		{"https", other, "no TLS connection ("},
	} {
		transport := ""
		if c.scheme == "https" {
			transport = `,"tls":{}`
		}
		for name, way := range map[string]http.RoundTripper{
			"net/http": new(http.Transport), "reverse_proxy": proxy(t, c.address, transport),
		} {
			err, want := failure(t, way, c.scheme+"://"+c.address+"/mcp"), c.want
			if c.address == plain && name == "reverse_proxy" {
				want = "no TLS connection (first record does not look like a TLS handshake)" // Caddy does not tell
			}
			if got := outage.Words(err, time.Minute); !strings.HasPrefix(got, want) {
				t.Errorf("through %s, %s://%s: %q is said in the words %q, want %q", name, c.scheme, c.address, err, got, want)
			}
		}
	}
	socket := filepath.Join(t.TempDir(), "s")
	if got, want := outage.Words(failure(t, proxy(t, "unix/"+socket, ""), "http://localhost/mcp"), 0), "no such file or directory at "+socket; got != want {
		t.Errorf("of a socket that is not there it is said %q, want %q", got, want)
	}
}

// slow is an error of a connection that takes too long.
type slow struct{ error }

func (slow) Timeout() bool { return true }

func (slow) Temporary() bool { return true }

func TestWordsOfTimeouts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&url.Error{Op: "Post", URL: "http://x/mcp", Err: context.DeadlineExceeded}, "no answer within 10s"},
		{caddyhttp.Error(504, slow{errors.New("http: timeout awaiting response headers")}), "no answer in time"},
		{caddyhttp.Error(502, errors.New("dial tcp 192.0.2.1:80: i/o timeout")), "no connection in time to 192.0.2.1:80"},
		{&url.Error{Op: "Post", URL: "http://x/mcp", Err: errors.New("something else")}, ""},
	} {
		if got := outage.Words(fmt.Errorf("calling tools/list: %w", c.err), 10*time.Second); got != c.want {
			t.Errorf("%q is said in the words %q, want %q", c.err, got, c.want)
		}
	}
}

func TestCause(t *testing.T) {
	base := errors.New("it is invalid")
	for _, c := range []struct {
		err  error
		want string
	}{
		{base, "it is invalid"},
		{fmt.Errorf("reading x: %w", &url.Error{Op: "Post", URL: "http://secret/", Err: base}), "it is invalid"},
		{fmt.Errorf("reading x: %w", fmt.Errorf("%w: byte 5", base)), "it is invalid: byte 5"},
		{caddyhttp.Error(503, errors.New("no upstreams available")), "no upstreams available"},
	} {
		if got := outage.Cause(c.err); got != c.want {
			t.Errorf("the cause of %q is %q, want %q", c.err, got, c.want)
		}
	}
}
