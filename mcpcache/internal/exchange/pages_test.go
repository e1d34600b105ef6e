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
	memo := f.backend.Admission
	memo.AdmitContext(cache.Anonymous, revision.V20260728, 0, memo.Ticket(), time.Now().Add(time.Hour))
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
		"more than is remembered":      {http.Header{"Access-Control-Allow-Origin": {app}, "Access-Control-Expose-Headers": {strings.Repeat("a", backend.MaxPageRights+1)}}, app, byDefault},
		"as much as can be remembered": {http.Header{"Access-Control-Allow-Origin": {app}, "Access-Control-Expose-Headers": {strings.Repeat("a", backend.MaxPageRights)}}, app, http.Header{"Access-Control-Allow-Origin": {app}, "Vary": {"Origin"}, "Access-Control-Expose-Headers": {strings.Repeat("a", backend.MaxPageRights)}}},
		"nothing yet":                  {nil, app, byDefault},
		"nothing yet, small letters":   {nil, "https://APP.example", http.Header{"Access-Control-Allow-Origin": {"https://APP.example"}, "Vary": {"Origin"}, "Access-Control-Expose-Headers": {usualExposed}}},
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

// byDefault is for pages of an origin that the operator has named.
var byDefault = http.Header{
	"Access-Control-Allow-Origin": {app}, "Vary": {"Origin"}, "Access-Control-Expose-Headers": {usualExposed},
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
