package exchange

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestErrorsBar has the upstream answer a list of a caller who was let in with an
// error: that bars the caller, whatever the status, unless it is about a cursor,
// which anybody can make up. A status of 400 puts a session in doubt besides.
func TestErrorsBar(t *testing.T) {
	const legacy = revision.V20251125
	failed := func(status int, code string) stand {
		return answering(status, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":`+code+`,"message":"x"}}`)
	}
	const list, page = "", `"cursor":"2"`
	for name, c := range map[string]struct {
		params string
		answer stand
		barred bool
	}{
		"an error":                   {list, failed(200, "-32000"), true},
		"an error, 400":              {list, failed(400, "-32000"), true},
		"invalid, 400":               {list, failed(400, "-32602"), true},
		"no JSON, 400":               {list, answering(400, "text/plain", "Bad Request"), false},
		"a result, 400":              {list, answering(400, "application/json", rpcResult), false},
		"of a page":                  {page, failed(200, "-32000"), true},
		"of a page, 400":             {page, failed(400, "-32000"), true},
		"of a page, the cursor":      {page, failed(200, "-32602"), false},
		"of a page, the cursor, 400": {page, failed(400, "-32602"), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			f.letIn(t, "Bearer a")
			f.as(t, "Bearer a", modernRequest("tools/list", c.params), c.answer)
			f.session(t, "s", legacy)
			f.upstreamIs(c.answer)
			if c.params == list {
				f.serve(t, legacyRequest(legacy, "s", "tools/list"))
			}
			for _, r := range []revision.Revision{legacy, revision.V20260728} {
				f.pinned(t, r, cache.Public, time.Hour, 0, "cached")
			}
			if w := f.as(t, "Bearer a", modernRequest("tools/list", ""), refusing); (w.Code == http.StatusTeapot) != c.barred {
				t.Errorf("the caller then got %d, %q", w.Code, w.Header().Get("Cache-Status"))
			}
			if c.params != list {
				return
			}
			if w := f.serve(t, legacyRequest(legacy, "s", "tools/list")); (w.Code == http.StatusTeapot) != (c.barred || strings.HasSuffix(name, "400")) {
				t.Errorf("the session then got %d, %q", w.Code, w.Header().Get("Cache-Status"))
			}
		})
	}
}

// TestRefusalOfAPageBars has the upstream refuse a page of a list, or something
// else, to a caller without credentials and without a session.
func TestRefusalOfAPageBars(t *testing.T) {
	const legacy = revision.V20251125
	for name, c := range map[string]struct {
		method, params string
		barred         bool
	}{
		"a list": {"tools/list", "{}", true},
		"a page": {"tools/list", `{"cursor":"2"}`, true},
		"a call": {"tools/call", `{"name":"a"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			f.upstreamIs(listing("a"))
			f.serve(t, legacyRequest(legacy, "", "tools/list"))
			f.upstreamIs(answering(http.StatusForbidden, "text/plain", "no"))
			r := legacyRequest(legacy, "", c.method)
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, c.method, c.params)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
			f.serve(t, r)
			f.pinned(t, legacy, cache.Public, time.Hour, 0, "cached")
			f.upstreamIs(refusing)
			if w := f.serve(t, legacyRequest(legacy, "", "tools/list")); (w.Code == http.StatusTeapot) != c.barred {
				t.Errorf("the caller then got %d, %q", w.Code, w.Header().Get("Cache-Status"))
			}
		})
	}
}
