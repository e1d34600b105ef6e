package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestAnswerArrivesAsWritten(t *testing.T) {
	noLeaks(t)
	const body = `{"jsonrpc":"2.0","id":1,"result":{}}`
	rt := through(handler(func(w http.ResponseWriter, r *http.Request) error {
		local := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).ReplaceAll("{http.request.local}{http.request.local.host}{http.request.local.port}", "")
		if local != "" {
			t.Errorf("the request came on %s", local)
		}
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != "{}" || r.Method != http.MethodPost || r.RequestURI != "/mcp?a=b" ||
			r.Host != "upstream.test:3001" || r.RemoteAddr != "@" || r.Header.Get("Mcp-Method") != "tools/list" {
			t.Errorf("got %s %s for %s from %s with %v and body %q, error %v",
				r.Method, r.RequestURI, r.Host, r.RemoteAddr, r.Header, got, err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("Too-Late", "1")
		_, err = io.WriteString(w, body)
		return err
	}))
	req := newRequest(t.Context(), t, http.MethodPost, endpoint+"?a=b", "{}")
	req.Header.Set("Mcp-Method", "tools/list")
	res, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusAccepted || res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Too-Late") != "" {
		t.Errorf("got status %d, header %v", res.StatusCode, res.Header)
	}
	if got, err := readAll(res); got != body || err != nil {
		t.Errorf("got body %q, error %v", got, err)
	}
}

// Every event has to be there before the next one is written.
func TestEventsArriveOneByOne(t *testing.T) {
	noLeaks(t)
	taken := make(chan struct{})
	res := post(t.Context(), t, through(handler(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		for n := range 3 {
			<-taken
			if _, err := fmt.Fprintf(w, "data: %d\n\n", n); err != nil {
				return err
			}
		}
		return nil
	})))
	defer res.Body.Close()
	for n := range 3 {
		taken <- struct{}{}
		want := fmt.Sprintf("data: %d\n\n", n)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
			t.Fatalf("got %q, error %v, want %q", got, err, want)
		}
	}
	if n, err := res.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("got %d more bytes, error %v", n, err)
	}
}

func TestHandlerFails(t *testing.T) {
	begin := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "some")
	}
	for name, tt := range map[string]struct {
		handler handler
		want    error // nil: any
		begun   bool  // before it fails
	}{
		"error":             {func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(502, errBroken) }, errBroken, false},
		"error in the body": {func(w http.ResponseWriter, _ *http.Request) error { begin(w); return errBroken }, errBroken, true},
		"abort":             {func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }, http.ErrAbortHandler, false},
		"abort in the body": {func(w http.ResponseWriter, _ *http.Request) error { begin(w); panic(http.ErrAbortHandler) }, http.ErrAbortHandler, true},
		"panic":             {func(http.ResponseWriter, *http.Request) error { panic("oops") }, nil, false},
		"panic in the body": {func(w http.ResponseWriter, _ *http.Request) error { begin(w); panic("oops") }, nil, true},
		"no answer":         {func(http.ResponseWriter, *http.Request) error { return nil }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			res, err := through(tt.handler).RoundTrip(newRequest(t.Context(), t, http.MethodPost, endpoint, "{}"))
			if (err == nil) != tt.begun {
				t.Fatalf("got error %v", err)
			}
			if tt.begun {
				var body string
				body, err = readAll(res)
				if body != "some" || err == nil {
					t.Errorf("got body %q, error %v", body, err)
				}
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestDetached(t *testing.T) {
	noLeaks(t)
	release := make(chan struct{})
	rt := through(handler(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		<-release
		_, err := io.WriteString(w, "first")
		return err
	}))
	res := post(t.Context(), t, rt)
	rt.Use(answer(http.StatusOK, "text/plain", "second"))
	again := post(t.Context(), t, rt)
	if got, err := readAll(again); got != "second" || err != nil {
		t.Errorf("got %q, error %v", got, err)
	}
	rt.Use(nil)
	body := &closable{}
	req := newRequest(t.Context(), t, http.MethodPost, endpoint, "")
	req.Body = body
	if _, err := rt.RoundTrip(req); !errors.Is(err, errDetached) || !body.closed {
		t.Errorf("got error %v, request body closed: %v", err, body.closed)
	}
	close(release)
	if got, err := readAll(res); got != "first" || err != nil {
		t.Errorf("the request under way got %q, error %v", got, err)
	}
}

// closable is a request body.
type closable struct {
	mu     sync.Mutex
	closed bool
}

func (c *closable) Read([]byte) (int, error) { return 0, io.EOF }

func (c *closable) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func (c *closable) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Caddy's variables are a plain map: no two requests may share one.
func TestConcurrentRequests(t *testing.T) {
	noLeaks(t)
	rt := through(handler(func(w http.ResponseWriter, r *http.Request) error {
		caddyhttp.SetVar(r.Context(), "query", r.URL.RawQuery)
		_, err := fmt.Fprint(w, caddyhttp.GetVar(r.Context(), "query"))
		return err
	}))
	base := newRequest(t.Context(), t, http.MethodPost, endpoint, "")
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			req := base.Clone(context.WithoutCancel(t.Context()))
			req.URL.RawQuery = fmt.Sprint(n)
			res, err := rt.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := readAll(res); got != fmt.Sprint(n) || err != nil {
				t.Errorf("request %d got %q, error %v", n, got, err)
			}
		})
	}
	all.Wait()
}
