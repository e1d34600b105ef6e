package exchange

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// fallbackFace is a face that has a copy of the tools to fall back on: it is
// out of date, so that the upstream is asked first.
func fallbackFace(t *testing.T) *face {
	t.Helper()
	f := newFace(t, config{Gate: duration(0)})
	f.pinned(t, revision.V20260728, cache.Public, time.Hour, time.Minute, "old")
	f.backend.Cache.Bump(revision.SetOf(revision.Tools))
	ledger := f.backend.Admission
	ledger.AdmitContext(cache.Anonymous, revision.V20260728, 0, ledger.Ticket(), time.Now().Add(time.Hour))
	return f
}

// isOld fails unless an answer is the old copy, marked stale.
func isOld(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	status := w.Header().Get("Cache-Status")
	if w.Code != http.StatusOK || !strings.HasPrefix(status, "mcp_cache; hit; ttl=") || !strings.HasSuffix(status, "; detail=stale") ||
		!strings.Contains(w.Body.String(), `"old"`) {
		t.Errorf("want the old copy, got %d, %q, %s", w.Code, status, w.Body)
	}
}

func TestFallback(t *testing.T) {
	f := fallbackFace(t)
	for name, answer := range map[string]stand{
		"500":   failsWith(http.StatusInternalServerError),
		"502":   failsWith(http.StatusBadGateway),
		"503":   failsWith(http.StatusServiceUnavailable),
		"504":   failsWith(http.StatusGatewayTimeout),
		"error": func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(http.StatusBadGateway, nil) },
		"error after 503": func(w http.ResponseWriter, r *http.Request) error {
			_ = failsWith(503)(w, r)
			return errors.New("broken")
		},
		"abort after 503": func(w http.ResponseWriter, r *http.Request) error {
			_ = failsWith(503)(w, r)
			panic(http.ErrAbortHandler)
		},
		"abort at once": func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) },
		"abort in the JSON": func(w http.ResponseWriter, r *http.Request) error {
			_ = answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"tools":[`)(w, r)
			panic(http.ErrAbortHandler)
		},
		"abort in an event": func(w http.ResponseWriter, r *http.Request) error {
			_ = answering(200, "text/event-stream", noticeOf("message")+`data: {"jsonrpc":"2.0","id":1,`)(w, r)
			panic(http.ErrAbortHandler)
		},
		"flushed 503": func(w http.ResponseWriter, r *http.Request) error {
			w.WriteHeader(http.StatusServiceUnavailable)
			return http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			f.upstreamIs(answer)
			w := httptest.NewRecorder()
			w.Header().Set("Server", "Caddy")
			if err := f.ServeHTTP(w, modernRequest("tools/list", ""), nil); err != nil {
				t.Fatal(err)
			}
			isOld(t, w)
			if w.Header().Get("X-Upstream") != "" || w.Header().Get("Retry-After") != "" {
				t.Errorf("what failed has left its header: %v", w.Header())
			}
			if w.Header().Get("Server") != "Caddy" {
				t.Errorf("what was there before is gone: %v", w.Header())
			}
			if f.asked() != 1 {
				t.Error("the upstream was not asked")
			}
		})
	}
}

// failsWith answers with a status and headers of its own.
func failsWith(status int) stand {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("X-Upstream", "yes")
		w.Header().Set("Retry-After", "5")
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Del("Server")
		w.WriteHeader(status)
		_, err := fmt.Fprintf(w, "failed with %d", status)
		return err
	}
}

// Only failures of the upstream are replaced; everything else is its answer.
func TestNoFallback(t *testing.T) {
	for _, status := range []int{200, 202, 400, 401, 403, 404, 405, 413, 429, 501, 505} {
		f := fallbackFace(t)
		f.upstreamIs(failsWith(status))
		w := httptest.NewRecorder()
		w.Header().Set("Server", "Caddy")
		if err := f.ServeHTTP(w, modernRequest("tools/list", ""), nil); err != nil {
			t.Fatal(err)
		}
		want := http.Header{
			"X-Upstream": {"yes"}, "Retry-After": {"5"}, "Content-Type": {"text/plain"}, "Cache-Status": {"mcp_cache; fwd=uri-miss"},
		}
		if w.Code != status || w.Body.String() != fmt.Sprintf("failed with %d", status) || !maps.EqualFunc(w.Header(), want, slices.Equal) {
			t.Errorf("%d: got %d, %v, %s", status, w.Code, w.Header(), w.Body)
		}
	}
}

// Without a copy, a failure is the answer, with the reason in its header.
func TestFailureWithoutACopy(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	want := caddyhttp.Error(http.StatusBadGateway, errors.New("dial"))
	f.upstreamIs(func(http.ResponseWriter, *http.Request) error { return want })
	w := httptest.NewRecorder()
	if err := f.ServeHTTP(w, modernRequest("tools/list", ""), nil); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if got := w.Header().Get("Cache-Status"); got != "mcp_cache; fwd=bypass; detail=admission" {
		t.Errorf("got %q", got)
	}
}

// A handler that aborts an answer aborts it for the client, if there is no copy or the client has the beginning of the
// answer.
func TestAbortGoesOn(t *testing.T) {
	withoutCopy := func(t *testing.T) *face { return newFace(t, config{Gate: duration(0)}) }
	for name, c := range map[string]struct {
		face   func(*testing.T) *face
		before stand
	}{
		"at once":          {withoutCopy, func(http.ResponseWriter, *http.Request) error { return nil }},
		"after its header": {withoutCopy, failsWith(http.StatusOK)},
		"in a long answer": {fallbackFace, answering(200, "application/json", `{"x":"`+strings.Repeat("x", maxHeld))},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.face(t)
			f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
				_ = c.before(w, r)
				panic(http.ErrAbortHandler)
			})
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("panicked with %v", p)
				}
			}()
			_ = f.ServeHTTP(httptest.NewRecorder(), modernRequest("tools/list", ""), nil)
			t.Error("the abort is lost")
		})
	}
}

// wire is a response writer that keeps what it is told, in order.
type wire struct {
	header http.Header
	events []string
	before func() // each write

	deadline time.Time
}

func (w *wire) Header() http.Header { return w.header }

func (w *wire) WriteHeader(status int) {
	w.events = append(w.events, fmt.Sprintf("%d %v %v", status, w.header["Link"], w.header["Cache-Status"]))
}

func (w *wire) Write(p []byte) (int, error) {
	if w.before != nil {
		w.before()
	}
	w.events = append(w.events, string(p))
	return len(p), nil
}

func (w *wire) FlushError() error { w.events = append(w.events, "flush"); return nil }

func (w *wire) SetWriteDeadline(deadline time.Time) error { w.deadline = deadline; return nil }

func TestInformationalStatusPasses(t *testing.T) {
	f := newFace(t, config{})
	f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusOK)
		w.WriteHeader(http.StatusTeapot) // too late
		_, err := w.Write([]byte("done"))
		return err
	})
	w := &wire{header: make(http.Header)}
	if err := f.ServeHTTP(w, modernRequest("tools/call", ""), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"103 [</a>] []", "102 [</a>] []", "200 [] [mcp_cache; fwd=bypass; detail=method]", "done"}
	if !slices.Equal(w.events, want) {
		t.Errorf("got %q, want %q", w.events, want)
	}
}

func TestCacheStatusIsAppended(t *testing.T) {
	f := newFace(t, config{})
	for _, copied := range []bool{false, true} {
		nearer := []string{"OriginCache; hit; ttl=5", "CDN; fwd=miss"}
		shared := append(make([]string, 0, 8), nearer...)
		f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
			w.Header()["Cache-Status"] = shared
			if copied {
				w.WriteHeader(http.StatusOK)
			}
			_, err := w.Write([]byte("x"))
			return err
		})
		w := f.serve(t, modernRequest("tools/call", ""))
		want := append(slices.Clone(nearer), "mcp_cache; fwd=bypass; detail=method")
		if got := w.Header()["Cache-Status"]; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if extra := shared[:cap(shared)][len(nearer)]; extra != "" {
			t.Errorf("the upstream's own slice now has %q", extra)
		}
	}
}

// Events pass one by one, unchanged and at once, and so do flushes.
func TestEventsPassAtOnce(t *testing.T) {
	f := newFace(t, config{})
	chunks := []string{": priming\n\n", "id: 1\r\nda", "ta: {\"a\":1}\r\n\r\n", "retry: 5\n", "\n", "event: message\ndata:x\n\n"}
	w := &wire{header: make(http.Header)}
	f.upstreamIs(func(up http.ResponseWriter, _ *http.Request) error {
		up.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(up)
		if err := control.Flush(); err != nil { // the header, before anything is known
			return err
		}
		for i, chunk := range chunks {
			if n, err := up.Write([]byte(chunk)); n != len(chunk) || err != nil {
				t.Errorf("writing gave %d, %v", n, err)
			}
			if err := control.Flush(); err != nil {
				return err
			}
			if got := w.events[len(w.events)-2:]; got[0] != chunk || got[1] != "flush" {
				t.Errorf("after chunk %d, the client has got %q", i, got)
			}
		}
		return control.SetWriteDeadline(time.Unix(1, 0))
	})
	if err := f.ServeHTTP(w, modernRequest("tools/call", ""), nil); err != nil {
		t.Fatal(err)
	}
	if len(w.events) != 2+2*len(chunks) || !strings.HasPrefix(w.events[0], "200 ") || w.events[1] != "flush" {
		t.Errorf("got %q", w.events)
	}
	if !w.deadline.Equal(time.Unix(1, 0)) {
		t.Error("a deadline does not reach the writer below")
	}
}

// What a client can read of a change has been taken note of before.
func TestNoticeCountsBeforeItLeaves(t *testing.T) {
	f := newFace(t, config{})
	tools := f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "old")
	w := &wire{header: make(http.Header)}
	var left []cache.Freshness
	w.before = func() { left = append(left, f.backend.Cache.Freshness(tools, time.Now())) }
	f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, chunk := range []string{"data: {\"method\":\"notifications/tools/", "list_chang", "ed\"}\n\n"} {
			if _, err := w.Write([]byte(chunk)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := f.ServeHTTP(w, modernRequest("subscriptions/listen", ""), nil); err != nil {
		t.Fatal(err)
	}
	if want := []cache.Freshness{cache.Fresh, cache.Fresh, cache.Outdated}; !slices.Equal(left, want) {
		t.Errorf("when its parts left, the list was %v, want %v", left, want)
	}
}
