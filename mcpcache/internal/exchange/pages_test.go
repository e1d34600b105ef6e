package exchange

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const app = "https://app.example"

// hitFor returns the header of a hit for a page of that origin.
func hitFor(t *testing.T, f *face, origin string, before http.Header) http.Header {
	t.Helper()
	ledger := f.backend.Admission
	ledger.AdmitContext(cache.Anonymous, revision.V20260728, 0, ledger.Ticket(), time.Now().Add(time.Hour))
	r := modernRequest("tools/list", "")
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	w := newRecorderWith(before)
	if err := f.ServeHTTP(w, r, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.Header().Get("Cache-Status"), "; hit") {
		t.Fatalf("got %d, %v", w.Code, w.Header())
	}
	return w.Header()
}

// An answer from the cache lets a page do what the server's own answers let
// pages of its origin do.
func TestHitsForPages(t *testing.T) {
	for name, c := range map[string]struct {
		says   http.Header // the server, with an answer to a page of that origin
		origin string
		want   http.Header
	}{
		"the origin": {
			http.Header{"Access-Control-Allow-Origin": {app}, "Vary": {"Origin"}, "Access-Control-Expose-Headers": {"Mcp-Session-Id"}}, app,
			http.Header{"Access-Control-Allow-Origin": {app}, "Vary": {"Origin"}, "Access-Control-Expose-Headers": {"Mcp-Session-Id"}},
		},
		"any origin": {http.Header{"Access-Control-Allow-Origin": {"*"}}, app, http.Header{"Access-Control-Allow-Origin": {"*"}}},
		"with credentials": {
			http.Header{"Access-Control-Allow-Origin": {app}, "Access-Control-Allow-Credentials": {"true"}, "Access-Control-Expose-Headers": {"A", "B"}}, app,
			http.Header{
				"Access-Control-Allow-Origin": {app}, "Access-Control-Allow-Credentials": {"true"}, "Vary": {"Origin"},
				"Access-Control-Expose-Headers": {"A, B"},
			},
		},
		"nothing":                      {http.Header{}, app, http.Header{}},
		"another origin":               {http.Header{"Access-Control-Allow-Origin": {"*"}}, "http://localhost", http.Header{}},
		"no page":                      {http.Header{"Access-Control-Allow-Origin": {"*"}}, "", http.Header{}},
		"as much as can be remembered": {http.Header{"Access-Control-Allow-Origin": {app}, "Access-Control-Expose-Headers": {strings.Repeat("a", backend.MaxPageRights)}}, app, http.Header{"Access-Control-Allow-Origin": {app}, "Vary": {"Origin"}, "Access-Control-Expose-Headers": {strings.Repeat("a", backend.MaxPageRights)}}},
		"nothing yet, its own page":    {nil, "http://localhost", http.Header{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Origins: []string{app}})
			f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "a")
			if c.says != nil {
				f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
					maps.Copy(w.Header(), c.says)
					return listing("a")(w, r)
				})
				r := modernRequest("tools/call", "")
				r.Header.Set("Origin", app)
				f.serve(t, r)
			}
			got := make(http.Header)
			for field, values := range hitFor(t, f, c.origin, nil) {
				if strings.HasPrefix(field, "Access-Control-") || field == "Vary" {
					got[field] = values
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// A page whose origin the operator has named gets its list from the server until
// the server has answered one of that origin: what it may do with the answer is the
// server's to say, and so is whether it gets any.
func TestPagesThatTheServerHasNotAnswered(t *testing.T) {
	allows := http.Header{"Access-Control-Allow-Origin": {app}}
	tooMuch := http.Header{"Access-Control-Allow-Origin": {app}, "Access-Control-Expose-Headers": {strings.Repeat("a", backend.MaxPageRights+1)}}
	for name, c := range map[string]struct {
		origin   string
		statuses []int // of the server's answers to a call, one after the other
		says     http.Header
		hit      bool
	}{
		"never answered":                 {origin: app},
		"never answered, great letters":  {origin: strings.ToUpper(app)},
		"answered":                       {app, []int{200}, allows, true},
		"answered without a word":        {app, []int{200}, nil, true},
		"with more than is remembered":   {app, []int{200}, tooMuch, false},
		"refused":                        {app, []int{403}, nil, false},
		"answered, then refused":         {app, []int{200, 403}, nil, false},
		"refused, then answered":         {app, []int{403, 200}, nil, true},
		"refused for what the page asks": {app, []int{200, 403}, allows, true},
		"unauthorized":                   {app, []int{401}, allows, false},
		"answered, then unauthorized":    {app, []int{200, 401}, nil, true},
		"its own page":                   {"http://localhost", nil, nil, true},
		"its own page, refused":          {"http://localhost", []int{403}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Origins: []string{app}})
			f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "a")
			status := http.StatusForbidden
			f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
				maps.Copy(w.Header(), c.says)
				w.WriteHeader(status)
				return nil
			})
			for _, status = range c.statuses {
				r := modernRequest("tools/call", "")
				r.Header.Set("Origin", c.origin)
				f.serve(t, r)
			}
			status = http.StatusForbidden
			memo := f.backend.Admission
			memo.AdmitContext(cache.Anonymous, revision.V20260728, 0, memo.Ticket(), time.Now().Add(time.Hour))
			r := modernRequest("tools/list", "")
			r.Header.Set("Origin", c.origin)
			w := f.serve(t, r)
			want := "mcp_cache; hit; ttl="
			if !c.hit {
				want = "mcp_cache; fwd=bypass; detail=admission"
			}
			if got := w.Header().Get("Cache-Status"); !strings.HasPrefix(got, want) || (w.Code == http.StatusOK) != c.hit {
				t.Errorf("got %d, %q, want %q", w.Code, got, want)
			}
			if got := w.Header()["Access-Control-Allow-Origin"]; !slices.Equal(got, c.says["Access-Control-Allow-Origin"]) {
				t.Errorf("%q may read it, the server says %v", got, c.says)
			}
		})
	}
}

// What a handler in front has said counts.
func TestCORSOfHandlersInFront(t *testing.T) {
	f := newFace(t, config{Origins: []string{app}})
	f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "a")
	h := hitFor(t, f, app, http.Header{"Access-Control-Allow-Origin": {"*"}})
	if !slices.Equal(h["Access-Control-Allow-Origin"], []string{"*"}) || h["Access-Control-Expose-Headers"] != nil {
		t.Errorf("got %v", h)
	}
}

// Answers that are failures, or to other requests than messages, teach nothing.
func TestWhatTeachesNoCORS(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		status int
	}{"failure": {http.MethodPost, 500}, "unauthorized": {http.MethodPost, 401}, "preflight": {http.MethodOptions, 200}, "stream": {http.MethodGet, 200}} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Origins: []string{app}})
			f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Access-Control-Allow-Origin", "*")
				w.WriteHeader(c.status)
				return nil
			})
			r := modernRequest("tools/call", "")
			r.Method = c.method
			r.Header.Set("Origin", app)
			f.serve(t, r)
			if got, known := f.backend.CORS.Of(app); known {
				t.Errorf("learned %+v", got)
			}
		})
	}
}

// newRecorderWith returns a recorder whose header a handler in front has begun.
func newRecorderWith(before http.Header) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	maps.Copy(w.Header(), before)
	return w
}
