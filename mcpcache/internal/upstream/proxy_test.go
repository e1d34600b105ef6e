package upstream

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
)

// proxied returns a transport through a real reverse_proxy to a real server.
func proxied(t *testing.T, serve http.HandlerFunc) (*Transport, *httptest.Server) {
	t.Helper()
	server := httptest.NewUnstartedServer(serve)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handlers abort on purpose
	server.Start()
	t.Cleanup(server.Close)
	return through(fixture.ReverseProxy(t, server.Listener.Addr().String(), "")), server
}

func TestProxyJSON(t *testing.T) {
	noLeaks(t)
	const body = `{"jsonrpc":"2.0","id":1,"result":{"big":9007199254740993}}`
	rt, _ := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil || string(sent) != "{}" || r.Host != "upstream.test:3001" || r.Header.Get("X-Forwarded-For") != "" {
			t.Errorf("got body %q, error %v, host %s, header %v", sent, err, r.Host, r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	})
	res := post(t.Context(), t, rt)
	if got, err := readAll(res); got != body || err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("got status %d, body %q, error %v", res.StatusCode, got, err)
	}
}

func TestProxyEvents(t *testing.T) {
	noLeaks(t)
	taken := make(chan struct{})
	rt, _ := proxied(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", n)
			_ = http.NewResponseController(w).Flush()
			<-taken
		}
	})
	res := post(t.Context(), t, rt)
	defer res.Body.Close()
	for n := range 3 {
		want := fmt.Sprintf("data: %d\n\n", n)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
			t.Fatalf("got %q, error %v, want %q", got, err, want)
		}
		taken <- struct{}{}
	}
}

// An abandoned answer to a POST must not look to the server like a client
// that has gone away; an abandoned stream must.
func TestProxyAbandoned(t *testing.T) {
	for name, stream := range map[string]bool{"answer": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			release, ended := make(chan struct{}), make(chan error, 1)
			rt, _ := proxied(t, func(w http.ResponseWriter, r *http.Request) {
				// A server notices that its client has gone once it has the body.
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "data: answer\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-release:
				case <-r.Context().Done():
				}
				ended <- r.Context().Err()
			})
			ctx := t.Context()
			if stream {
				ctx = requesthint.WithStream(ctx)
			}
			res := post(ctx, t, rt)
			res.Body.Close()
			if !stream {
				close(release)
			}
			if err := <-ended; (err != nil) != stream {
				t.Errorf("the server's request ended with %v", err)
			}
		})
	}
}

func TestProxyFails(t *testing.T) {
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		begun bool
	}{
		"connection refused": {nil, false},
		"connection cut":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
		"cut in the body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "some")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			rt, server := proxied(t, tt.serve)
			if tt.serve == nil {
				server.Close()
			}
			res, err := rt.RoundTrip(newRequest(t.Context(), t, http.MethodPost, endpoint, "{}"))
			if (err == nil) != tt.begun {
				t.Fatalf("got error %v", err)
			}
			if tt.begun {
				if body, err := readAll(res); err == nil {
					t.Errorf("got body %q without an error", body)
				}
			}
		})
	}
}

func TestProxyCancelled(t *testing.T) {
	noLeaks(t)
	arrived, ended := make(chan struct{}), make(chan struct{})
	rt, _ := proxied(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := rt.RoundTrip(newRequest(ctx, t, http.MethodGet, endpoint, "")); err == nil {
		t.Error("got an answer to a request that was cancelled")
	}
	<-ended
}
