package exchange

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestConnectionFieldsDoNotCount has callers name what tells them apart in
// Connection: the server sees nobody, so nobody is let in, barred or given
// anything by that name.
func TestConnectionFieldsDoNotCount(t *testing.T) {
	const legacy = revision.V20251125
	hop := func(r *http.Request, name string) *http.Request {
		r.Header.Set("Connection", name)
		return r
	}
	t.Run("credentials", func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		seen := ""
		for range 2 {
			f.as(t, "Bearer a", hop(modernRequest("tools/list", ""), "Authorization"), func(w http.ResponseWriter, r *http.Request) error {
				seen += r.Header.Get("Authorization") + r.Header.Get("Connection")
				return listing("anybody's")(w, r)
			})
		}
		if seen != "" {
			t.Errorf("the upstream saw %q", seen)
		}
		f.pinTools(t)
		if w := f.as(t, "Bearer a", modernRequest("tools/list", ""), refusing); w.Code != http.StatusTeapot {
			t.Errorf("with its credentials the caller got %d, %q: %s", w.Code, w.Header().Get("Cache-Status"), w.Body)
		}
	})
	t.Run("session", func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		f.session(t, "s", legacy)
		f.backend.Admission.EndSession("s")
		f.upstreamIs(listing("anybody's"))
		f.serve(t, hop(legacyRequest(legacy, "s", "tools/list"), "Mcp-Session-Id"))
		f.pinTools(t)
		f.upstreamIs(refusing)
		if w := f.serve(t, legacyRequest(legacy, "s", "tools/list")); w.Code != http.StatusTeapot {
			t.Errorf("the session that has ended got %d, %q", w.Code, w.Header().Get("Cache-Status"))
		}
	})
	t.Run("what makes it valid", func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0), Admit: "all"})
		f.pinTools(t)
		for _, name := range []string{"Content-Type", "Accept", "MCP-Protocol-Version", "Mcp-Method"} {
			f.upstreamIs(refusing)
			if w := f.serve(t, hop(modernRequest("tools/list", ""), name)); w.Code != http.StatusTeapot {
				t.Errorf("without %s: %d, %q", name, w.Code, w.Header().Get("Cache-Status"))
			}
		}
	})
	t.Run("in a look", func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		f.backend.Admission.AdmitContext(f.contextOf(withAuthorization("Bearer a")), revision.V20260728, 0, f.backend.Admission.Ticket(), time.Now().Add(time.Hour))
		f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "cached")
		if _, ok := f.Look(httptest.NewRecorder(), withAuthorization("Bearer a")); !ok {
			t.Error("the caller would get nothing")
		}
		if _, ok := f.Look(httptest.NewRecorder(), hop(withAuthorization("Bearer a"), "Authorization")); ok {
			t.Error("whom the server would not see would get a list")
		}
	})
	t.Run("of a page", func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		r := hop(modernRequest("tools/list", ""), "Origin")
		r.Header.Set("Origin", "https://evil.example")
		if w := f.serve(t, r); w.Code != http.StatusForbidden {
			t.Errorf("a foreign page got %d", w.Code)
		}
	})
}

func withAuthorization(value string) *http.Request {
	r := modernRequest("tools/list", "")
	r.Header.Set("Authorization", value)
	return r.WithContext(context.Background())
}
