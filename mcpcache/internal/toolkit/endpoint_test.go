package toolkit

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
)

// The endpoint refuses methods of HTTP that it does not have, and says which ones it has.
func TestOtherMethodsOfHTTPAreRefused(t *testing.T) {
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodHead, http.MethodTrace} {
				a := c.send(c.request(method, "/mcp", ""))
				a.want(w, method, http.StatusMethodNotAllowed, jsonrpc.InvalidRequest)
				if got := a.Header().Get("Allow"); got != "POST, GET, DELETE" || a.status() != "detail=refused" {
					w.Errorf("%s is answered with Allow: %q and %s", method, got, a)
				}
				if !strings.Contains(a.says(), "POST, GET, DELETE") {
					w.Errorf("%s is refused with %q, which does not say the methods that there are", method, a.says())
				}
			}
		})
	}, serves("one"))
}

// page is what a browser says of the page that sends a request.
type page struct {
	header []string
	host   string // "" for that of the site
	local  bool   // the request has arrived at a loopback address
	letIn  bool
}

// pages are pages that may use the endpoint, and pages that may not. The option origins lists https://app.test.
var pages = map[string]page{
	"none":                      {letIn: true},
	"the site's own":            {header: []string{"Origin", "http://site.test"}, letIn: true},
	"one of origins":            {header: []string{"Origin", "https://app.test"}, letIn: true},
	"one of this machine":       {host: "localhost:8080", local: true, letIn: true},
	"another site's":            {header: []string{"Origin", "https://evil.test"}},
	"a file":                    {header: []string{"Origin", "null"}},
	"one that hides its origin": {header: []string{"Origin", "https://evil.test", "Connection", "Origin"}},
	"one without an Origin":     {header: []string{"Sec-Fetch-Site", "cross-site"}},
	"one whose name leads here": {host: "evil.test", local: true},
}

// send sends a request as such a page.
func (p *page) send(c *caller, r *http.Request) *received {
	for i := 0; i < len(p.header); i += 2 {
		r.Header.Set(p.header[i], p.header[i+1])
	}
	if p.host != "" {
		r.Host = p.host
	}
	if p.local {
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
	}
	return c.send(r)
}

// The endpoint refuses requests of pages that may not use it, whatever they ask for. The operator is told of each page.
func TestForeignPagesAreRefused(t *testing.T) {
	for name, p := range pages {
		t.Run(name, func(t *testing.T) {
			one := serves("one")
			runWith(t, setup{origins: []string{"https://app.test"}}, func(w *world) {
				w.eachEra(func(c *caller) {
					call := c.message("tools/call", `"name":"one__tools_a","arguments":{}`)
					named := []string{"Mcp-Method", "tools/call", "Mcp-Name", "one__tools_a"}
					requests := []*http.Request{c.request(http.MethodPost, "/mcp", call, named...), c.request(http.MethodOptions, "/mcp", "")}
					if c.at == legacy {
						requests = append(requests, c.request(http.MethodDelete, "/mcp", ""))
					}
					for _, r := range requests {
						a := p.send(c, r)
						refused := a.Code == http.StatusForbidden && a.code() == jsonrpc.InvalidRequest && a.status() == "detail=origin"
						if refused == p.letIn {
							w.Errorf("%s of a %s client is answered with %s", r.Method, c.at.Era(), a)
						}
					}
				})
				if called := len(one.asked("tools/call")) > 0; called != p.letIn {
					w.Errorf("the server is called: %v, want %v", called, p.letIn)
				}
				if n := w.logs.FilterMessageSnippet("a request was refused").Len(); (n == 1) == p.letIn {
					w.Errorf("the operator is told %d times of the page", n)
				}
			}, one)
		})
	}
}

// Requests for other paths go to the next handler as they are, and count nowhere. A page whose name was made to lead here
// is refused at every path.
func TestOtherPathsAreNotOurs(t *testing.T) {
	run(t, func(w *world) {
		c := w.calls(modern)
		for name, p := range pages {
			var asked *http.Request
			c.next = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				asked = r
				w.WriteHeader(http.StatusTeapot)
				return nil
			})
			for _, path := range []string{"/", "/mcp/", "/mcp2", "/other/mcp"} {
				asked = nil
				a := p.send(c, c.request(http.MethodPost, path, "{}", "X-Own", "1", "Connection", "X-Own"))
				if p.host == "evil.test" {
					a.want(w, name, http.StatusForbidden, jsonrpc.InvalidRequest)
				} else if asked == nil || a.Code != http.StatusTeapot || asked.URL.Path != path || asked.Header.Get("X-Own") != "1" {
					w.Errorf("%s: %s is answered with %s by the next handler: %v", name, path, a, asked != nil)
				}
			}
		}
		if len(w.observed.outcomes) != 0 {
			w.Errorf("the metrics count %v", w.observed.outcomes)
		}
	}, serves("one"))
}

// An endpoint is not made of a server whose address cannot be read. The error names the server.
func TestAddressesHaveToBeReadable(t *testing.T) {
	s := Settings{Name: "mcp_cache", Path: "/mcp", Memory: 8 << 20}
	servers := []*Server{{Name: "one", URL: "http://one.test/mcp"}, {Name: "two", URL: "http://[::1/mcp"}}
	if _, err := New(s, servers, new(observed), zap.NewNop()); err == nil || !strings.HasPrefix(err.Error(), "server two: ") {
		t.Errorf("the error is %v", err)
	}
}
