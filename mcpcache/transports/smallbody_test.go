package transports_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/transports"
)

// send sends a request with a body through a proxy, and returns the answer.
func send(tb testing.TB, proxy caddyhttp.MiddlewareHandler, body io.Reader, length int, h http.Header) (string, error) {
	tb.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "http://public.example.com/mcp", io.NopCloser(body))
	r.ContentLength = int64(length)
	if h != nil {
		r.Header = h
	}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	err := proxy.ServeHTTP(w, r, caddyhttp.HandlerFunc(nil))
	return w.Body.String(), err
}

// echo answers with the body of a request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write(body)
}

// watched is a connection whose writes are counted.
type watched struct {
	net.Conn
	*writes
}

// writes are those on all connections of a proxy.
type writes struct {
	atomic.Int32
	fail atomic.Bool // the next one fails
}

func (c watched) Write(p []byte) (int, error) {
	if c.fail.Swap(false) {
		return 0, net.ErrClosed
	}
	c.Add(1)
	return c.Conn.Write(p)
}

// watchWrites watches the writes on a proxy's connections.
func watchWrites(proxy *reverseproxy.Handler) *writes {
	w := new(writes)
	rt := proxy.Transport.(*transports.UpstreamHost).Transport
	dial := rt.DialContext
	rt.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return watched{conn, w}, err
	}
	return w
}

func TestSmallBodyIsSentWithTheHeader(t *testing.T) {
	small, large := strings.Repeat("s", 200), strings.Repeat("l", 100<<10)
	for name, c := range map[string]struct {
		body   string
		header http.Header
		once   bool
	}{
		"small":              {body: small, once: true},
		"large":              {body: large},
		"key of idempotency": {body: small, header: http.Header{"Idempotency-Key": {"k"}}},
		"older such key":     {body: small, header: http.Header{"X-Idempotency-Key": {"k"}}},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := newProxy(t, ownHost, serve(t, echo))
			w := watchWrites(proxy)
			got, err := send(t, proxy, strings.NewReader(c.body), len(c.body), c.header)
			if err != nil || got != c.body {
				t.Fatalf("got %d bytes, error %v", len(got), err)
			}
			if n := w.Load(); (n == 1) != c.once {
				t.Errorf("the request was sent in %d writes", n)
			}
		})
	}
}

// TestSmallBodyOfAnotherAttempt has the first upstream fail: the second one is sent all of the body.
func TestSmallBodyOfAnotherAttempt(t *testing.T) {
	proxy := newProxy(t, retries+ownHost, closedAddr(t), serve(t, echo))
	if got, err := send(t, proxy, strings.NewReader("body"), 4, nil); err != nil || got != "body" {
		t.Errorf("got %q, error %v", got, err)
	}
}

// TestSmallBodyThatEnds has the client leave before its body is there: the server sees nothing of it.
func TestSmallBodyThatEnds(t *testing.T) {
	var asked atomic.Int32
	proxy := newProxy(t, ownHost, serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	_, err := send(t, proxy, strings.NewReader("bod"), 4, nil)
	if err == nil || !strings.Contains(err.Error(), "reading request body: unexpected EOF") {
		t.Errorf("got error %v", err)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
}

// TestSmallBodyOnAClosedConnection has a connection be closed just before a request is written to it:
// the request is sent on another one.
func TestSmallBodyOnAClosedConnection(t *testing.T) {
	proxy := newProxy(t, ownHost, serve(t, echo))
	w := watchWrites(proxy)
	for range 2 {
		if got, err := send(t, proxy, strings.NewReader("body"), 4, nil); err != nil || got != "body" {
			t.Errorf("got %q, error %v", got, err)
		}
		w.fail.Store(true)
	}
}

// TestSmallBodyIsNotSentAgain has the server close a connection that was used before in the place of an
// answer: it may have taken the request.
func TestSmallBodyIsNotSentAgain(t *testing.T) {
	for name, h := range map[string]http.Header{"": nil, "key": {"Idempotency-Key": {"k"}}} {
		var asked atomic.Int32
		proxy := newProxy(t, ownHost, serve(t, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1); r.Header.Get("X-Close") != "" {
				panic(http.ErrAbortHandler)
			}
			echo(w, r)
		}))
		if _, err := send(t, proxy, strings.NewReader("body"), 4, nil); err != nil {
			t.Fatal(err)
		}
		if h == nil {
			h = make(http.Header)
		}
		h.Set("X-Close", "now")
		if _, err := send(t, proxy, strings.NewReader("body"), 4, h); err == nil {
			t.Errorf("%s: no error", name)
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("%s: the server was asked %d times", name, n)
		}
	}
}

// TestLargeBodyStreams has the client send a large body only once the server has the header.
func TestLargeBodyStreams(t *testing.T) {
	arrived := make(chan struct{})
	proxy := newProxy(t, ownHost, serve(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		echo(w, r)
	}))
	large := strings.Repeat("l", 8<<10)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	body := io.MultiReader(readerFunc(func() {
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Error("the server was sent nothing")
		}
	}), strings.NewReader(large))
	if got, err := send(t, proxy, body, len(large), nil); err != nil || got != large {
		t.Errorf("got %d bytes, error %v", len(got), err)
	}
}

// readerFunc reads nothing, once it has returned.
type readerFunc func()

func (f readerFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
