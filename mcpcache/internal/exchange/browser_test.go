package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/landing"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// browserAccept is what browsers send when somebody opens a URL.
const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

// visit is a request of a browser that opens the endpoint.
func visit() *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost/mcp?key=secret", nil)
	r.Header = http.Header{"Accept": {browserAccept}, "Accept-Encoding": {"gzip"}}
	return r
}

// answersVisit answers with that status and type, and with what is one client's own.
func answersVisit(status int, media string) stand {
	return func(w http.ResponseWriter, _ *http.Request) error {
		h := w.Header()
		h.Set("Content-Type", media)
		h.Set("Mcp-Session-Id", "s1")
		h.Set("Set-Cookie", "a=b")
		h.Set("Cache-Control", "public")
		h.Set("WWW-Authenticate", "Bearer")
		h.Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, err := fmt.Fprint(w, "what the server says")
		return err
	}
}

// TestVisitOfABrowser replaces what shows a person nothing, and no other answer.
func TestVisitOfABrowser(t *testing.T) {
	const html, stream, plain = "text/html; charset=utf-8", "text/event-stream", "application/json"
	for _, rules := range [][]string{nil, {"deny tools x"}} {
		f := newFace(t, config{Rules: rules})
		for _, c := range []struct {
			status   int
			media    string
			replaced bool
		}{
			{200, stream, true},
			{200, "Text/Event-Stream; charset=utf-8", true},
			{400, plain, true},
			{400, html, true},
			{405, plain, true},
			{406, plain, true},
			{200, html, false},
			{200, plain, false},
			{202, plain, false},
			{302, html, false},
			{401, plain, false},
			{403, plain, false},
			{404, plain, false},
			{500, html, false},
			{503, plain, false},
		} {
			f.upstreamIs(answersVisit(c.status, c.media))
			w := httptest.NewRecorder()
			w.Header().Set("Server", "Caddy")
			if err := f.ServeHTTP(w, visit(), nil); err != nil {
				t.Fatal(err)
			}
			if f.asked() != 1 {
				t.Errorf("%d, %s: the upstream was not asked once", c.status, c.media)
			}
			h := w.Header()
			if !c.replaced {
				if w.Code != c.status || w.Body.String() != "what the server says" || h.Get("Set-Cookie") != "a=b" ||
					h.Get("Www-Authenticate") != "Bearer" || h.Get("Location") != "/elsewhere" || h.Get("Content-Type") != c.media ||
					h.Get("Cache-Status") != "mcp_cache; fwd=bypass; detail=method" {
					t.Errorf("%d, %s: got %d, %v, %s", c.status, c.media, w.Code, h, w.Body)
				}
				continue
			}
			if w.Code != http.StatusMethodNotAllowed || w.Body.String() != landing.Text(visit()) {
				t.Errorf("%d, %s: got %d, %s", c.status, c.media, w.Code, w.Body)
			}
			for name, want := range map[string]string{
				"Allow": "POST", "Cache-Control": "no-store", "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff",
				"Cache-Status": "mcp_cache; fwd=bypass; detail=method", "Server": "Caddy", "Content-Length": fmt.Sprint(w.Body.Len()),
				"Mcp-Session-Id": "", "Set-Cookie": "", "Www-Authenticate": "", "Location": "",
			} {
				if got := h.Get(name); got != want {
					t.Errorf("%d, %s: %s is %q, want %q", c.status, c.media, name, got, want)
				}
			}
		}
	}
}

// TestNoVisit: whoever says anything that a client of MCP says gets the server's answer.
func TestNoVisit(t *testing.T) {
	f := newFace(t, config{})
	for name, change := range map[string]func(r *http.Request){
		"takes a stream":   func(r *http.Request) { r.Header.Set("Accept", "text/html, text/event-stream") },
		"takes it besides": func(r *http.Request) { r.Header.Add("Accept", "text/event-stream") },
		"takes anything":   func(r *http.Request) { r.Header.Set("Accept", "*/*") },
		"takes nothing":    func(r *http.Request) { r.Header.Del("Accept") },
		"in a session":     func(r *http.Request) { r.Header.Set("Mcp-Session-Id", "s") },
		"at a revision":    func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "2025-11-25") },
		"HEAD":             func(r *http.Request) { r.Method = http.MethodHead },
		"DELETE":           func(r *http.Request) { r.Method = http.MethodDelete },
		"OPTIONS":          func(r *http.Request) { r.Method = http.MethodOptions },
		"POST":             func(r *http.Request) { r.Method = http.MethodPost },
		"another path":     func(r *http.Request) { r.URL.Path = "/other" },
	} {
		f.upstreamIs(answersVisit(http.StatusMethodNotAllowed, "application/json"))
		r := visit()
		change(r)
		if w := f.serve(t, r); w.Body.String() != "what the server says" || w.Header().Get("Set-Cookie") == "" {
			t.Errorf("%s: got %d, %v, %s", name, w.Code, w.Header(), w.Body)
		}
	}
}

// TestVisitEndsTheStream: the server sees that nobody reads its stream, and how its handler
// ends is no matter.
func TestVisitEndsTheStream(t *testing.T) {
	f := newFace(t, config{})
	for name, end := range map[string]func() error{
		"error": func() error { return errors.New("reading: context canceled") },
		"abort": func() error { panic(http.ErrAbortHandler) },
		"none":  func() error { return nil },
	} {
		f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("flushing: %v", err)
			}
			<-r.Context().Done()
			if n, err := w.Write([]byte("data: late\n\n")); n != 12 || err != nil {
				t.Errorf("writing: %d, %v", n, err)
			}
			return end()
		})
		r := visit()
		if w := f.serve(t, r); w.Code != http.StatusMethodNotAllowed || !strings.HasPrefix(w.Body.String(), "This is an MCP endpoint") {
			t.Errorf("%s: got %d, %s", name, w.Code, w.Body)
		}
		if r.Context().Err() != nil {
			t.Errorf("%s: the client's own request was ended", name)
		}
	}
}

// TestVisitOfAServerThatIsGone gets the failure, as Caddy answers it.
func TestVisitOfAServerThatIsGone(t *testing.T) {
	f := newFace(t, config{})
	f.upstreamIs(gone(502))
	w := f.told(t, visit(), 502)
	if w.Code != 0 || w.Header().Get("Cache-Status") != "mcp_cache; fwd=bypass; detail=method" {
		t.Errorf("got %d, %v, %s", w.Code, w.Header(), w.Body)
	}
}

// TestVisitAtTheDoor is refused like any other request of a foreign page.
func TestVisitAtTheDoor(t *testing.T) {
	f := newFace(t, config{})
	r := visit()
	r.Header.Set("Origin", "https://evil.example")
	w := f.serve(t, r)
	if response, err := message.ParseResponse(w.Body.Bytes()); w.Code != http.StatusForbidden || err != nil || response.Error == nil || f.asked() != 0 {
		t.Errorf("got %d, %s", w.Code, w.Body)
	}
}
