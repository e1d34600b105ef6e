package mcpcache

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Which Host the server is sent depends on the upstream handler: only where the
// clients' have a say does the feed have one of its own.
func TestFeedHost(t *testing.T) {
	proxy := func(members string) string {
		return `{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:3001"}]` + members + `}`
	}
	request := func(ops string) string { return proxy(`,"headers":{"request":{` + ops + `}}`) }
	const address = "127.0.0.1:3001"
	for name, c := range map[string]struct{ upstream, want string }{
		"plain":                        {proxy(""), address},
		"upstream_host":                {proxy(`,"transport":{"protocol":"upstream_host"}`), ""},
		"upstream_host, header_up":     {proxy(`,"transport":{"protocol":"upstream_host"},"headers":{"request":{"set":{"Host":["{http.request.host}"]}}}`), ""},
		"http":                         {proxy(`,"transport":{"protocol":"http"}`), address},
		"TLS":                          {proxy(`,"transport":{"protocol":"http","tls":{}}`), ""},
		"TLS and the client's":         {proxy(`,"transport":{"protocol":"http","tls":{}},"headers":{"request":{"set":{"Host":["{http.request.host}"]}}}`), address},
		"set":                          {request(`"set":{"Host":["mcp.example.com"]}`), ""},
		"set, small letters":           {request(`"set":{"host":["mcp.example.com"]}`), ""},
		"set to the upstream's":        {request(`"set":{"Host":["{http.reverse_proxy.upstream.hostport}"]}`), ""},
		"set from the environment":     {request(`"set":{"Host":["{env.MCP_HOST}"]}`), ""},
		"set to the client's":          {request(`"set":{"Host":["{http.request.host}"]}`), address},
		"set to the client's and more": {request(`"set":{"Host":["{http.reverse_proxy.upstream.host}.{http.request.host}"]}`), address},
		"set from a header":            {request(`"set":{"Host":["{http.request.header.X-Forwarded-Host}"]}`), address},
		"another field":                {request(`"set":{"X-Host":["mcp.example.com"]}`), address},
		"added":                        {request(`"add":{"Host":["mcp.example.com"]}`), ""},
		"deleted":                      {request(`"delete":["Host"]`), ""},
		"replaced":                     {request(`"replace":{"Host":[{"search":"a","replace":"b"}]}`), address},
		"set and replaced":             {request(`"set":{"Host":["a"]},"replace":{"Host":[{"search":"a","replace":"{http.request.host}"}]}`), address},
		"another handler":              {`{"handler":"mcp_cache_stand","name":"feedhost","upstreams":[{"dial":"127.0.0.1:3001"}]}`, address},
		"no address":                   {`{"handler":"mcp_cache_stand","name":"feedhost"}`, "localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := mustProvision(t, config("feedhost", "upstream", c.upstream))
				got := l.feedHost
				l.cancel()
				if got != c.want {
					t.Errorf("the feed's Host is %q, want %q", got, c.want)
				}
				named, err := provision(t, config("feedhost", "upstream", c.upstream, "host", `"MCP.example.com:8443"`))
				switch {
				case c.want == "" && (err == nil || !strings.Contains(err.Error(), "host: ")):
					t.Errorf("an option that does nothing gives the error %v", err)
				case c.want != "" && err != nil:
					t.Error(err)
				case c.want != "" && named.feedHost != "mcp.example.com:8443":
					t.Errorf("the named Host became %q", named.feedHost)
				}
				if err == nil {
					named.cancel()
				}
			})
		})
	}
}

func TestBadHost(t *testing.T) {
	for _, bad := range []string{" ", "a b", "http://a", "a/b", "a:b", "a:123456", "::1", "[::1", "user@a", "{env.HOST}", "a,b", "é", strings.Repeat("a", 254)} {
		h := Handler{Host: bad}
		if _, err := h.newSettings(); err == nil || !strings.HasPrefix(err.Error(), "host: ") {
			t.Errorf("%q: got error %v", bad, err)
		}
	}
	for _, good := range []string{"a", "mcp.example.com", "mcp.example.com:8443", "127.0.0.1:1", "[::1]", "[::1]:8080", "a_b-c"} {
		h := Handler{Host: good}
		if _, err := h.newSettings(); err != nil {
			t.Errorf("%q: got error %v", good, err)
		}
	}
}

// Every request of the feed has the Host that the operator has named.
func TestFeedSendsItsHost(t *testing.T) {
	for host, want := range map[string]string{"null": "localhost", `"mcp.example.com"`: "mcp.example.com"} {
		synctest.Test(t, func(t *testing.T) {
			hosts := make(chan string, 100)
			stands.Store("hosts", stand(func(_ http.ResponseWriter, r *http.Request) error {
				select {
				case hosts <- r.Host:
				default:
				}
				return caddyhttp.Error(http.StatusBadGateway, nil)
			}))
			defer stands.Delete("hosts")
			l := mustProvision(t, config("hosts", "host", host))
			l.start()
			synctest.Wait()
			l.cancel()
			close(hosts)
			n := 0
			for got := range hosts {
				if n++; got != want {
					t.Errorf("the feed's Host is %q, want %q", got, want)
				}
			}
			if n < 2 {
				t.Errorf("the feeds sent %d requests", n)
			}
		})
	}
}
