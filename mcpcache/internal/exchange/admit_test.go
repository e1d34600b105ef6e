package exchange

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const discovered = `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"serverInfo":{"name":"s","version":"1"},"ttlMs":60000,"cacheScope":"public"`

// askerOf sends a request of one caller, for which the upstream has that answer.
type askerOf func(f *face, t *testing.T, method string, answer stand) *httptest.ResponseRecorder

func askerWith(prepare func(method string) *http.Request) askerOf {
	return func(f *face, t *testing.T, method string, answer stand) *httptest.ResponseRecorder {
		t.Helper()
		f.upstreamIs(answer)
		return f.serve(t, prepare(method))
	}
}

var (
	anonymously = askerWith(func(method string) *http.Request { return modernRequest(method, "") })
	withToken   = askerWith(func(method string) *http.Request {
		r := modernRequest(method, "")
		r.Header.Set("Authorization", "Bearer a")
		return r
	})
	inSession = askerWith(func(method string) *http.Request {
		return legacyRequest(revision.V20251125, "s", method)
	})
	inSessionWithToken = askerWith(func(method string) *http.Request {
		r := legacyRequest(revision.V20251125, "s", method)
		r.Header.Set("Authorization", "Bearer a")
		return r
	})
)

// pinTools makes a list that anybody may be given the snapshot of both eras.
func (f *face) pinTools(t *testing.T) {
	t.Helper()
	for _, r := range []revision.Revision{revision.V20251125, revision.V20260728} {
		f.pinned(t, r, cache.Public, time.Hour, 0, "cached")
	}
}

// Some servers answer server/discover to everybody, and lists only to those whom
// they know.
func TestDiscoverLetsInToNoList(t *testing.T) {
	for name, ask := range map[string]askerOf{"anonymous": anonymously, "with a token": withToken} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			f.pinTools(t)
			ask(f, t, "tools/list", answering(http.StatusUnauthorized, "text/plain", ""))
			for range 2 {
				if w := ask(f, t, "server/discover", resultOf(discovered)); w.Code != http.StatusOK {
					t.Fatalf("discover gave %d", w.Code)
				}
			}
			if w := ask(f, t, "tools/list", refusing); w.Code != http.StatusTeapot {
				t.Errorf("a list then gave %d, %q", w.Code, w.Header().Get("Cache-Status"))
			}
		})
	}
}

// What a caller was refused is answered by the server until it has answered that
// very kind, whatever other kinds it answers meanwhile.
func TestRefusedKind(t *testing.T) {
	failed := answering(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"x"}}`)
	for name, refusal := range map[string]stand{
		"401":      answering(http.StatusUnauthorized, "text/plain", ""),
		"403":      answering(http.StatusForbidden, "text/plain", ""),
		"an error": failed,
	} {
		for who, ask := range map[string]askerOf{
			"anonymous": anonymously, "with a token": withToken, "session": inSession, "session with a token": inSessionWithToken,
		} {
			for state, before := range map[string]stand{"known": resultOf(`"prompts":[],"ttlMs":0`), "unknown": nil} {
				t.Run(name+" "+who+" "+state, func(t *testing.T) {
					f := newFace(t, config{Gate: duration(0)})
					if before != nil {
						ask(f, t, "prompts/list", before)
					}
					ask(f, t, "tools/list", refusal)
					ask(f, t, "prompts/list", resultOf(`"prompts":[],"ttlMs":0`))
					f.pinTools(t)
					if w := ask(f, t, "tools/list", refusing); w.Code != http.StatusTeapot {
						t.Errorf("the list then gave %d, %q", w.Code, w.Header().Get("Cache-Status"))
					}
					ask(f, t, "tools/list", listing("cached"))
					if w := ask(f, t, "tools/list", refusing); w.Code == http.StatusTeapot {
						t.Errorf("answered, the list gave %d, %q", w.Code, w.Header().Get("Cache-Status"))
					}
				})
			}
		}
	}
}

// A refusal of server/discover says nothing about lists, unless it is one of the
// credentials.
func TestRefusedDiscover(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	for name, ask := range map[string]askerOf{"anonymous": anonymously, "with a token": withToken} {
		f.pinTools(t)
		ask(f, t, "prompts/list", resultOf(`"prompts":[],"ttlMs":0`))
		ask(f, t, "server/discover", answering(http.StatusUnauthorized, "text/plain", ""))
		w := ask(f, t, "tools/list", refusing)
		if barred := w.Code == http.StatusTeapot; barred != (name == "with a token") {
			t.Errorf("%s: a list then gave %d, %q", name, w.Code, w.Header().Get("Cache-Status"))
		}
	}
}

// A restart lets callers without credentials in to every kind, so their admission
// is kept only where none is refused to them.
func TestWhichAdmissionIsKept(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	kept := func(when string, want bool) {
		t.Helper()
		if until := f.backend.Keeper.AdmittedUntil(revision.V20260728); until.IsZero() == want {
			t.Errorf("%s: kept until %v", when, until)
		}
	}
	anonymously(f, t, "server/discover", resultOf(discovered))
	kept("discover answered", false)
	anonymously(f, t, "prompts/list", resultOf(`"prompts":[],"ttlMs":0`))
	kept("prompts answered", true)
	anonymously(f, t, "tools/list", answering(http.StatusForbidden, "text/plain", ""))
	kept("tools refused", false)
	anonymously(f, t, "prompts/list", resultOf(`"prompts":[],"ttlMs":0`))
	kept("prompts answered again", false)
	anonymously(f, t, "tools/list", listing("a"))
	kept("tools answered", true)
	anonymously(f, t, "server/discover", answering(http.StatusForbidden, "text/plain", ""))
	kept("discover refused", false)
}

// That the upstream does not answer one list, for what it is, bars nobody from
// another, and nobody from it once it is answered.
func TestErrorsAboutOneKind(t *testing.T) {
	for _, code := range []int{-32601, -32602, -32603} {
		for name, list := range map[string]func(string) *http.Request{
			"session": func(method string) *http.Request { return legacyRequest(revision.V20251125, "s", method) },
			"token":   func(method string) *http.Request { return modernRequest(method, "") },
		} {
			t.Run(fmt.Sprint(name, code), func(t *testing.T) {
				f := newFace(t, config{Gate: duration(0)})
				ask := func(method string) *httptest.ResponseRecorder {
					r := list(method)
					r.Header.Set("Authorization", "Bearer a")
					return f.serve(t, r)
				}
				isHit := func(method string) bool {
					return strings.Contains(ask(method).Header().Get("Cache-Status"), "; hit")
				}
				f.upstreamIs(listing("a"))
				if isHit("tools/list"); !isHit("tools/list") {
					t.Fatal("the second list is no hit")
				}
				f.upstreamIs(resultOf(`"prompts":[{"name":"p"}],"ttlMs":60000`))
				if isHit("prompts/list"); !isHit("prompts/list") {
					t.Fatal("the second list of prompts is no hit")
				}
				f.upstreamIs(answering(http.StatusOK, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"no"}}`, code)))
				f.backend.Cache.Bump(revision.SetOf(revision.Prompts))
				if w := ask("prompts/list"); !strings.Contains(w.Body.String(), `"error"`) {
					t.Fatalf("got %s", w.Body)
				}
				if !isHit("tools/list") {
					t.Error("an error about prompts bars from tools")
				}
				if isHit("prompts/list") {
					t.Error("the list that the upstream does not answer is a hit")
				}
			})
		}
	}
}
