package exchange

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRefusal sends what must not get through: the upstream never sees it, and
// the answer is a JSON-RPC error, so that no client takes it for another era.
func TestRefusal(t *testing.T) {
	f := newFace(t, config{Name: "front"})
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions} {
		r := modernRequest("tools/list", "")
		r.Method = method
		r.Header.Set("Origin", "https://evil.example")
		w := f.serve(t, r)
		if w.Code != http.StatusForbidden || w.Header().Get("Cache-Status") != "front; detail=origin" ||
			w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: got %d, %v", method, w.Code, w.Header())
		}
		if body := w.Body.String(); !strings.HasPrefix(body, `{"jsonrpc":"2.0","error":{"code":-32600,`) {
			t.Errorf("%s: got %s", method, body)
		}
	}
	if n := f.asked(); n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
}

// What only reads passes at other paths than the endpoint, whatever its Origin.
// Nothing else of a foreign page does, and nothing at all of a foreign Host.
func TestOtherPaths(t *testing.T) {
	header := func(pairs ...string) http.Header {
		h := make(http.Header)
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	const evil = "https://evil.example"
	for name, c := range map[string]struct {
		method  string
		host    string
		header  http.Header
		refused bool
	}{
		"GET of a page":                 {http.MethodGet, "", header("Origin", evil), false},
		"HEAD of a page":                {http.MethodHead, "", header("Origin", evil), false},
		"preflight":                     {http.MethodOptions, "", header("Origin", evil, "Access-Control-Request-Method", "POST"), false},
		"POST of a page":                {http.MethodPost, "", header("Origin", evil), true},
		"PUT of a page":                 {http.MethodPut, "", header("Origin", evil), true},
		"DELETE of a page":              {http.MethodDelete, "", header("Origin", evil), true},
		"QUERY of a page":               {"QUERY", "", header("Origin", evil), true},
		"get of a page":                 {"get", "", header("Origin", evil), true},
		"CONNECT of a page":             {http.MethodConnect, "", header("Origin", evil), true},
		"WebSocket of a page":           {http.MethodGet, "", header("Origin", evil, "Connection", "Upgrade", "Upgrade", "websocket"), true},
		"WebSocket of its own":          {http.MethodGet, "", header("Origin", "http://localhost", "Connection", "Upgrade", "Upgrade", "websocket"), false},
		"POST without a page":           {http.MethodPost, "", nil, false},
		"POST of its own":               {http.MethodPost, "", header("Origin", "http://localhost"), false},
		"POST of a listed page":         {http.MethodPost, "", header("Origin", "https://app.example"), false},
		"POST of nobody":                {http.MethodPost, "", header("Origin", "null"), true},
		"form of its own":               {http.MethodPost, "", header("Origin", "null", "Sec-Fetch-Site", "same-origin"), false},
		"form of another site":          {http.MethodPost, "", header("Origin", "null", "Sec-Fetch-Site", "cross-site"), true},
		"form of the same domain":       {http.MethodPost, "", header("Origin", "null", "Sec-Fetch-Site", "same-site"), true},
		"form with two sites":           {http.MethodPost, "", header("Origin", "null", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"), true},
		"a page that says same-origin":  {http.MethodPost, "", header("Origin", evil, "Sec-Fetch-Site", "same-origin"), true},
		"two origins":                   {http.MethodPost, "", header("Origin", "http://localhost", "Origin", evil), true},
		"GET rebound":                   {http.MethodGet, "evil.example", nil, true},
		"OPTIONS rebound":               {http.MethodOptions, "evil.example", nil, true},
		"POST rebound":                  {http.MethodPost, "evil.example", header("Origin", "http://evil.example"), true},
		"rebound, said to be forwarded": {http.MethodPost, "evil.example", header("X-Forwarded-Host", "localhost", "Forwarded", "host=localhost", "X-Original-Url", "/mcp"), true},
		"GET of a listed host":          {http.MethodGet, "app.example", nil, false},
		"authority and Host":            {http.MethodPost, "localhost", header("Host", "evil.example"), true},
		"authority and the same Host":   {http.MethodPost, "localhost", header("Host", "LOCALHOST"), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Origins: []string{"https://app.example"}})
			for _, path := range []string{"/mcp/", "//mcp", "/MCP", "/mcp;x", "/./mcp", "/.well-known/oauth-protected-resource/mcp"} {
				r := httptest.NewRequestWithContext(t.Context(), c.method, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
				r.URL.Path, r.Host = path, cmp.Or(c.host, "localhost")
				maps.Copy(r.Header, c.header)
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}))
				w := f.serve(t, r)
				if refused := w.Code == http.StatusForbidden; refused != c.refused || refused == (f.asked() == 1) {
					t.Errorf("%s %s gave %d", c.method, path, w.Code)
				}
				if status := w.Header().Get("Cache-Status"); (status != "") != c.refused {
					t.Errorf("%s %s has the Cache-Status %q", c.method, path, status)
				}
			}
		})
	}
}
