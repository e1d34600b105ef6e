package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// gone is an upstream that cannot be reached.
func gone(status int) stand {
	return func(http.ResponseWriter, *http.Request) error {
		return caddyhttp.Error(status, errors.New("dial tcp 10.1.2.3:3001: connect: connection refused"))
	}
}

// told sends a request that fails, and returns what the client has been told by then. The
// error has to come back as it is, so that Caddy logs it.
func (f *face) told(t *testing.T, r *http.Request, status int) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	w.Code = 0 // nothing was written
	err := f.ServeHTTP(w, r, nil)
	if failed, ok := errors.AsType[caddyhttp.HandlerError](err); !ok || failed.StatusCode != status {
		t.Errorf("the handler returned %v, want status %d", err, status)
	}
	return w
}

const (
	cannotBeReached = "the MCP server cannot be reached"
	notAvailable    = "the MCP server is not available"
	notInTime       = "the MCP server did not answer in time"
)

// wantTold fails unless a client was told that error, in the protocol's words.
func wantTold(t *testing.T, what string, w *httptest.ResponseRecorder, status int, id, text string) {
	t.Helper()
	want := fmt.Sprintf(`{"jsonrpc":"2.0",%s"error":{"code":-32603,"message":%q}}`, id, text)
	h := w.Header()
	if w.Code != status || w.Body.String() != want || h.Get("Content-Type") != "application/json" ||
		h.Get("Content-Length") != strconv.Itoa(len(want)) || !strings.HasPrefix(h.Get("Cache-Status"), "mcp_cache; fwd=") {
		t.Errorf("%s: got %d, %v, %s; want %d, %s", what, w.Code, h, w.Body, status, want)
	}
}

// TestUnreachableUpstream tells clients in the protocol's words that the upstream cannot be
// reached, with the id of their request if it was read.
func TestUnreachableUpstream(t *testing.T) {
	f := newFace(t, config{Gate: duration(0), MaxRequest: 500})
	call := `{"jsonrpc":"2.0","id":"c 1","method":"tools/call","params":{"name":"x"%s}}`
	modernCall := modernRequest("tools/call", `"name":"x"`)
	odd := post(fmt.Sprintf(call, ""))
	odd.Header.Set("Content-Type", "application/json; charset=utf-16")
	for name, c := range map[string]struct {
		r      *http.Request
		status int
		id     string
		text   string
	}{
		"list":                       {modernRequest("tools/list", ""), 502, `"id":1,`, cannotBeReached},
		"list, 503":                  {modernRequest("tools/list", ""), 503, `"id":1,`, notAvailable},
		"list, 504":                  {modernRequest("tools/list", ""), 504, `"id":1,`, notInTime},
		"call":                       {post(fmt.Sprintf(call, "")), 502, `"id":"c 1",`, cannotBeReached},
		"initialize":                 {post(`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}`), 502, `"id":7,`, cannotBeReached},
		"call named in the header":   {modernCall, 502, "", cannotBeReached},
		"call larger than it may be": {post(fmt.Sprintf(call, `,"x":"`+strings.Repeat("x", 500)+`"`)), 502, "", cannotBeReached},
		"batch":                      {post("[" + fmt.Sprintf(call, "") + "]"), 502, "", cannotBeReached},
		"notification":               {post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), 502, "", cannotBeReached},
		"answer of a client":         {post(`{"jsonrpc":"2.0","id":3,"result":{}}`), 502, "", cannotBeReached},
		"no JSON":                    {post("{"), 502, "", cannotBeReached},
		"another character set":      {odd, 502, "", cannotBeReached},
	} {
		f.upstreamIs(gone(c.status))
		wantTold(t, name, f.told(t, c.r, c.status), c.status, c.id, c.text)
	}
}

// TestUnreachableBehindRules is the same where the upstream has to be asked before a
// request may be refused, and where a page of its list was asked for.
func TestUnreachableBehindRules(t *testing.T) {
	f := newFace(t, config{Gate: duration(0), Rules: []string{"deny tools x"}})
	f.upstreamIs(gone(502))
	wantTold(t, "a call that is refused", f.told(t, modernRequest("tools/call", `"name":"x"`), 502), 502, `"id":1,`, cannotBeReached)
	wantTold(t, "a list", f.told(t, modernRequest("tools/list", ""), 502), 502, `"id":1,`, cannotBeReached)

	paged := paging(t, nil, "abc")
	_, next := asksPage(t, paged, pageRequest(""))
	paged.backend.Cache.Unpin(revision.V20260728, revision.Tools)
	paged.upstreamIs(gone(502))
	wantTold(t, "a page", paged.told(t, pageRequest(next), 502), 502, `"id":1,`, cannotBeReached)
}

// TestUnreachableAsBefore leaves to Caddy what is not told in the protocol's words: of
// other methods, of clients that are gone, of other failures, of answers that have begun.
func TestUnreachableAsBefore(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	for name, c := range map[string]struct {
		method string
		answer stand
		status int // of the error
	}{
		"GET":        {http.MethodGet, gone(502), 502},
		"HEAD":       {http.MethodHead, gone(502), 502},
		"DELETE":     {http.MethodDelete, gone(502), 502},
		"client":     {http.MethodPost, gone(499), 499},
		"other path": {http.MethodPost, gone(502), 502},
	} {
		f.upstreamIs(c.answer)
		r := modernRequest("tools/list", "")
		r.Method = c.method
		if name == "other path" {
			r.URL.Path = "/other"
		}
		if w := f.told(t, r, c.status); w.Code != 0 || w.Body.Len() > 0 || w.Header().Get("Content-Type") != "" {
			t.Errorf("%s: got %d, %v, %s", name, w.Code, w.Header(), w.Body)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		cancel()
		return gone(502)(w, r)
	})
	if w := f.told(t, modernRequest("tools/list", "").WithContext(ctx), 502); w.Code != 0 {
		t.Errorf("a client that is gone: got %d, %s", w.Code, w.Body)
	}

	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		_, _ = fmt.Fprint(w, "half of ")
		return gone(502)(w, r)
	})
	if w := f.told(t, modernRequest("tools/list", ""), 502); w.Body.String() != "half of " {
		t.Errorf("an answer that has begun: got %d, %s", w.Code, w.Body)
	}

	other := errors.New("no route")
	f.upstreamIs(func(http.ResponseWriter, *http.Request) error { return other })
	w := httptest.NewRecorder()
	if err := f.ServeHTTP(w, modernRequest("tools/list", ""), nil); !errors.Is(err, other) || w.Body.Len() > 0 {
		t.Errorf("another error: %v, %s", err, w.Body)
	}
}

// matching matches or not.
type matching bool

func (m matching) MatchWithError(*http.Request) (bool, error) { return bool(m), nil }

// TestUnreachableWithErrorRoutes leaves the answer to the routes that a site has for errors;
// those of other sites of the same server do not count.
func TestUnreachableWithErrorRoutes(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	f.upstreamIs(gone(502))
	for name, c := range map[string]struct {
		errors *caddyhttp.HTTPErrorConfig
		told   bool
	}{
		"none":           {nil, true},
		"empty":          {new(caddyhttp.HTTPErrorConfig), true},
		"of all":         {&caddyhttp.HTTPErrorConfig{Routes: caddyhttp.RouteList{{}}}, false},
		"of this site":   {&caddyhttp.HTTPErrorConfig{Routes: caddyhttp.RouteList{{MatcherSets: caddyhttp.MatcherSets{{matching(false)}, {matching(true)}}}}}, false},
		"of other sites": {&caddyhttp.HTTPErrorConfig{Routes: caddyhttp.RouteList{{MatcherSets: caddyhttp.MatcherSets{{matching(false)}}}}}, true},
	} {
		r := modernRequest("tools/list", "")
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), &caddyhttp.Server{Errors: c.errors})
		w := f.told(t, r, 502)
		if (w.Code == 502) != c.told || (w.Body.Len() > 0) != c.told {
			t.Errorf("with error routes %s: got %d, %s", name, w.Code, w.Body)
		}
	}
}
