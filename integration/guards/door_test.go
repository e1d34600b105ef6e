package guards

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// spellings of the endpoint's path, or of a URL with it, that one server or
// another takes for the endpoint: Express routes the first ones to it.
var spellings = []string{
	"/mcp/", "//mcp", "/MCP", "/Mcp/", "/mcp", "/mcp?x", "/mcp?", "/mcp#x", "/mcp/?x=1",
	"/mcp;x", "/mcp;x=1/", "/%6dcp", "/%6Dcp/", "/mcp%2f", "/mcp%20", "/mcp%00", "/mcp%3f", "/%2e/mcp",
	"/./mcp", "/mcp/.", "/mcp/..", "/x/../mcp", "/x/%2e%2e/mcp", "/../mcp", "///mcp", "/mcp//", "\\mcp", "/\\mcp", "/mcp\\", "mcp",
	"/mcp/sse", "/sse", "/message?sessionId=1", "/", "*", "/.well-known/oauth-protected-resource/mcp",
}

// rawStatus sends a request as it stands to an address and returns the status
// of the answer.
func rawStatus(t *testing.T, addr, request string) int {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// doorkeepers are requests that a page of another site can make a browser send,
// or that look like those of one: nothing of them may reach the server, at
// whatever path. {addr} stands for the endpoint's address.
var doorkeepers = map[string]string{
	"rebound":                   "POST {path} HTTP/1.1\r\nHost: evil.example\r\n",
	"rebound, Origin":           "POST {path} HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n",
	"rebound, our port":         "POST {path} HTTP/1.1\r\nHost: evil.example:{port}\r\nOrigin: http://evil.example:{port}\r\n",
	"rebound, GET":              "GET {path} HTTP/1.1\r\nHost: evil.example\r\n",
	"rebound, DELETE":           "DELETE {path} HTTP/1.1\r\nHost: evil.example\r\n",
	"rebound, preflight":        "OPTIONS {path} HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n",
	"rebound, HTTP/1.0":         "POST {path} HTTP/1.0\r\nHost: evil.example\r\n",
	"no Host, HTTP/1.0":         "POST {path} HTTP/1.0\r\n",
	"two Hosts":                 "POST {path} HTTP/1.1\r\nHost: {addr}\r\nHost: evil.example\r\n",
	"two Hosts, other way":      "POST {path} HTTP/1.1\r\nHost: evil.example\r\nHost: {addr}\r\n",
	"empty Host":                "POST {path} HTTP/1.1\r\nHost:\r\n",
	"trailing dot":              "POST {path} HTTP/1.1\r\nHost: evil.example.:{port}\r\n",
	"userinfo":                  "POST {path} HTTP/1.1\r\nHost: localhost:{port}@evil.example\r\n",
	"zone":                      "POST {path} HTTP/1.1\r\nHost: [::1%25evil]:{port}\r\n",
	"said to be forwarded":      "POST {path} HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: {addr}\r\nForwarded: host={addr}\r\nX-Original-URL: /mcp\r\nX-Host: {addr}\r\n",
	"foreign Origin":            "POST {path} HTTP/1.1\r\nHost: {addr}\r\nOrigin: http://evil.example\r\n",
	"foreign Origin, DELETE":    "DELETE {path} HTTP/1.1\r\nHost: {addr}\r\nOrigin: http://evil.example\r\n",
	"foreign Origin, own name":  "POST {path} HTTP/1.1\r\nHost: {addr}\r\nOrigin: http://{addr}.evil.example\r\n",
	"null Origin":               "POST {path} HTTP/1.1\r\nHost: {addr}\r\nOrigin: null\r\n",
	"two Origins":               "POST {path} HTTP/1.1\r\nHost: {addr}\r\nOrigin: http://{addr}\r\nOrigin: http://evil.example\r\n",
	"foreign Origin, forwarded": "POST {path} HTTP/1.1\r\nHost: {addr}\r\nOrigin: http://evil.example\r\nX-Forwarded-Host: evil.example\r\n",
	"WebSocket of a page":       "GET {path} HTTP/1.1\r\nHost: {addr}\r\nOrigin: http://evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
	"absolute form":             "POST http://evil.example{path} HTTP/1.1\r\nHost: {addr}\r\n",
	"absolute form, Origin":     "POST http://{addr}{path} HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n",
}

// TestNoPathGetsFurther sends them at every spelling of the endpoint's path,
// to a server that executes a tool call at whatever path it comes.
func TestNoPathGetsFurther(t *testing.T) {
	host := fixture.NewHost(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	const passes, none = http.StatusTeapot, http.StatusOK // what no handler of the site answers is empty
	for form, c := range map[string]struct {
		site            string
		metadata, other int // what passes is answered by the server, or there is nothing
	}{
		"Host of ours":        {caddytest.Directive(host.URL), passes, passes},
		"clients' Host":       {"mcp_cache {\nreverse_proxy " + host.Addr + "\n}", passes, passes},
		"header_up":           {"mcp_cache {\nreverse_proxy " + host.Addr + " {\nheader_up Host mcp.internal\n}\n}", passes, passes},
		"toolkit":             {caddytest.ToolkitOf([]caddytest.Member{{Name: "one", URL: host.URL}}), http.StatusNotFound, none},
		"toolkit with a door": {caddytest.ToolkitOf([]caddytest.Member{{Name: "one", URL: host.URL, Options: []string{"authorization forward"}}}), passes, none},
	} {
		t.Run(form, func(t *testing.T) {
			p := caddytest.StartProxy(t, c.site)
			_, port, _ := strings.Cut(p.Addr, ":")
			call := fixture.Message("1", "tools/call", `{"name":"drop-tables"}`)
			host.Forget()
			for name, head := range doorkeepers {
				for _, path := range spellings {
					request := strings.NewReplacer("{path}", path, "{addr}", p.Addr, "{port}", port).Replace(head)
					request += fmt.Sprintf("User-Agent: page\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(call), call)
					if status := rawStatus(t, p.Addr, request); status == http.StatusTeapot {
						t.Errorf("%s at %s: got %d", name, path, status)
					}
				}
			}
			for _, r := range host.Requests(func(r *fixture.Request) bool { return r.Header.Get("User-Agent") == "page" }) {
				t.Errorf("%s %s of %s reached the server", r.HTTPMethod, r.URL, r.Header)
			}
			// What may pass does.
			for head, want := range map[string]int{
				"GET /.well-known/oauth-protected-resource/mcp HTTP/1.1\r\nHost: {addr}\r\nOrigin: http://evil.example\r\n":            c.metadata,
				"OPTIONS /register HTTP/1.1\r\nHost: {addr}\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n": c.other,
				"POST /register HTTP/1.1\r\nHost: {addr}\r\nOrigin: http://{addr}\r\nContent-Length: 0\r\n":                            c.other,
				"POST /register HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 0\r\n":                                           c.other,
			} {
				request := strings.NewReplacer("{addr}", p.Addr, "{port}", port).Replace(head) + "Connection: close\r\n\r\n"
				if status := rawStatus(t, p.Addr, request); status != want {
					t.Errorf("%q: got %d, want %d", request, status, want)
				}
			}
		})
	}
}

// TestPagesReadNothingThatIsLent has a server that is sent a credential with each request: no foreign page
// reads with it, at whatever path. The answers are the same in front of one server and of several.
func TestPagesReadNothingThatIsLent(t *testing.T) {
	const metadata, other = "/.well-known/oauth-protected-resource", "/other"
	lending := "header_up X-Api-Key planted"
	for name, c := range map[string]struct {
		site  func(url string) string
		other int // for a page that only reads
	}{
		"one server": {func(url string) string { return block("mcp_cache "+url, block("reverse_proxy", lending)) }, http.StatusForbidden},
		"toolkit": {func(url string) string {
			door := block("server door "+url, "authorization forward", block("reverse_proxy", lending))
			return block("mcp_cache", door) + "\nreverse_proxy " + strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
		}, http.StatusTeapot},
	} {
		t.Run(name, func(t *testing.T) {
			host := fixture.NewHost(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
			host.ShareCredentials()
			p := caddytest.StartProxy(t, c.site(host.URL))
			for what, tt := range map[string]struct {
				header          http.Header
				metadata, other int
			}{
				"client":     {nil, http.StatusTeapot, http.StatusTeapot},
				"own page":   {http.Header{"Origin": {"http://" + p.Addr}}, http.StatusTeapot, http.StatusTeapot},
				"page":       {http.Header{"Origin": {"http://evil.example"}}, http.StatusForbidden, c.other},
				"image":      {http.Header{"Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden, c.other},
				"other Host": {http.Header{"Host": {"evil.example"}}, http.StatusForbidden, http.StatusForbidden},
			} {
				host.Forget()
				for path, want := range map[string]int{metadata: tt.metadata, other: tt.other} {
					a, err := fixture.NewModern(t, "http://"+p.Addr+path, "").Try(t.Context(), http.MethodGet, "", tt.header)
					if err != nil {
						t.Fatal(err)
					}
					refused := a.CacheStatus().Detail == "origin" && strings.Contains(string(a.Body), `"code":-32600`)
					if a.Status != want || refused != (want == http.StatusForbidden) {
						t.Errorf("%s at %s: got %s: %s", what, path, a, a.Body)
					}
				}
				for _, r := range host.Requests(func(r *fixture.Request) bool { return !r.Feed }) {
					if lent := r.Header.Get("X-Api-Key") != ""; lent && tt.metadata == http.StatusForbidden || !lent && r.URL == metadata {
						t.Errorf("%s: %s %s of %s reached the server", what, r.HTTPMethod, r.URL, r.Header)
					}
				}
			}
			wantRemark(t, p, "mcp_cache", "name it in the option origins, with https:// in front", "host", "evil.example", 2)
		})
	}
}

// TestAuthorityAndHost sends requests of HTTP/2 that name two Hosts.
func TestAuthorityAndHost(t *testing.T) {
	host := fixture.NewHost(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	p := caddytest.StartProxy(t, caddytest.Directive(host.URL))
	for name, c := range map[string]struct {
		fields [][2]string
		passes bool
	}{
		"authority":            {[][2]string{{":authority", p.Addr}}, true},
		"foreign authority":    {[][2]string{{":authority", "evil.example"}}, false},
		"and a foreign Host":   {[][2]string{{":authority", p.Addr}, {"host", "evil.example"}}, false},
		"foreign, and a Host":  {[][2]string{{":authority", "evil.example"}, {"host", p.Addr}}, false},
		"and the same Host":    {[][2]string{{":authority", p.Addr}, {"host", p.Addr}}, true},
		"Host alone":           {[][2]string{{"host", p.Addr}}, true},
		"foreign Host alone":   {[][2]string{{"host", "evil.example"}}, false},
		"two Hosts":            {[][2]string{{"host", p.Addr}, {"host", "evil.example"}}, false},
		"letter that is no k":  {[][2]string{{":authority", "localhost"}, {"host", "LOCALHO\u017fT"}}, false},
		"authority and Origin": {[][2]string{{":authority", p.Addr}, {"origin", "http://evil.example"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			// What is no HTTP/2 at all, the server refuses before us.
			switch got := h2Status(t, p.Addr, c.fields); {
			case c.passes && got == "418", !c.passes && (got == "403" || got == "PROTOCOL_ERROR"):
			default:
				t.Errorf("got %s", got)
			}
		})
	}
}

// h2Status sends a POST of HTTP/2, in the clear, with those fields to another
// path than the endpoint, and returns the status of the answer.
func h2Status(t *testing.T, addr string, fields [][2]string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range append([][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/MCP"}}, fields...) {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame:
			return frame.ErrCode.String()
		}
	}
}

// TestTenantsByHost has one handler in front of a server that lists by Host:
// nobody is given another tenant's private list, and the tenant whose Host the
// feed sends is answered from what the feed has.
func TestTenantsByHost(t *testing.T) {
	tenants := map[string]*scripted.Server{"a.localhost": scripted.New(), "b.localhost": scripted.New()}
	for tenant, s := range tenants {
		s.SetHints(scripted.PrivateHour)
		for _, method := range scripted.ListMethods() {
			s.SetList(method, scripted.Items(method, tenant, 3))
		}
	}
	host := fixture.NewHost(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := tenants[r.Host]; s != nil {
			s.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	p := caddytest.StartProxy(t, "mcp_cache {\nhost a.localhost\nreverse_proxy "+host.Addr+"\n}")
	for _, authorization := range []string{"", "Bearer one"} {
		clients := make(map[string]*fixture.Raw)
		for tenant := range tenants {
			clients[tenant] = fixture.NewModern(t, p.URL, authorization)
			clients[tenant].Header = http.Header{"Host": {tenant}}
		}
		if authorization == "" {
			clients["a.localhost"].Settle(scripted.ToolsList)
		}
		for range 4 {
			for tenant, c := range clients {
				if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != tenant {
					t.Errorf("%s with %q got %s", tenant, authorization, a)
				}
			}
		}
	}
	for _, r := range host.Requests(func(r *fixture.Request) bool { return r.Feed && r.Host != "a.localhost" }) {
		t.Errorf("the feed sent %s to the Host %s", r.Method, r.Host)
	}
	if host.CountFeed(scripted.ToolsList) == 0 {
		t.Error("the feed has not listed")
	}
}
