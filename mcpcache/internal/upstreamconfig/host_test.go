package upstreamconfig

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	_ "github.com/caddy-mcp/mcp-cache/mcpcache/transports" // upstream_host
)

// load loads a handler as Caddy does.
func load(t *testing.T, config string) caddyhttp.MiddlewareHandler {
	t.Helper()
	base, err := caddy.ProvisionContext(&caddy.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(base)
	t.Cleanup(cancel)
	holder := struct {
		Raw json.RawMessage `caddy:"namespace=http.handlers inline_key=handler"`
	}{json.RawMessage(config)}
	module, err := ctx.LoadModule(&holder, "Raw")
	if err != nil {
		t.Fatal(err)
	}
	return module.(caddyhttp.MiddlewareHandler)
}

// TestPassesHost finds the handlers that let the client's Host through to the server.
func TestPassesHost(t *testing.T) {
	proxy := func(members string) string {
		return `{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:3001"}]` + members + `}`
	}
	request := func(ops string) string { return proxy(`,"headers":{"request":{` + ops + `}}`) }
	for name, c := range map[string]struct {
		upstream string
		want     bool
	}{
		"plain":                        {proxy(""), true},
		"upstream_host":                {proxy(`,"transport":{"protocol":"upstream_host"}`), false},
		"upstream_host, header_up":     {proxy(`,"transport":{"protocol":"upstream_host"},"headers":{"request":{"set":{"Host":["{http.request.host}"]}}}`), false},
		"http":                         {proxy(`,"transport":{"protocol":"http"}`), true},
		"TLS":                          {proxy(`,"transport":{"protocol":"http","tls":{}}`), false},
		"TLS and the client's":         {proxy(`,"transport":{"protocol":"http","tls":{}},"headers":{"request":{"set":{"Host":["{http.request.host}"]}}}`), true},
		"set":                          {request(`"set":{"Host":["mcp.example.com"]}`), false},
		"set, small letters":           {request(`"set":{"host":["mcp.example.com"]}`), false},
		"set to the upstream's":        {request(`"set":{"Host":["{http.reverse_proxy.upstream.hostport}"]}`), false},
		"set from the environment":     {request(`"set":{"Host":["{env.MCP_HOST}"]}`), false},
		"set to the client's":          {request(`"set":{"Host":["{http.request.host}"]}`), true},
		"set to the client's and more": {request(`"set":{"Host":["{http.reverse_proxy.upstream.host}.{http.request.host}"]}`), true},
		"set from a header":            {request(`"set":{"Host":["{http.request.header.X-Forwarded-Host}"]}`), true},
		"another field":                {request(`"set":{"X-Host":["mcp.example.com"]}`), true},
		"added":                        {request(`"add":{"Host":["mcp.example.com"]}`), false},
		"deleted":                      {request(`"delete":["Host"]`), false},
		"replaced":                     {request(`"replace":{"Host":[{"search":"a","replace":"b"}]}`), true},
		"set and replaced":             {request(`"set":{"Host":["a"]},"replace":{"Host":[{"search":"a","replace":"{http.request.host}"}]}`), true},
		"another handler":              {`{"handler":"static_response"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := PassesHost(load(t, c.upstream)); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

// TestAddresses finds the addresses that the server may take for its own, and none that depends
// on a request.
func TestAddresses(t *testing.T) {
	t.Setenv("MCP_HOST", "env.example")
	const upstreams = `{"handler":"reverse_proxy","upstreams":[{"dial":"10.0.0.5:3001"},{"dial":"[::1]:80"}]`
	for name, c := range map[string]struct {
		upstream string
		want     []string
	}{
		"addresses":   {upstreams + `}`, []string{"10.0.0.5:3001", "[::1]:80"}},
		"a Host":      {upstreams + `,"headers":{"request":{"set":{"host":["mcp.example.com"]}}}}`, []string{"10.0.0.5:3001", "[::1]:80", "mcp.example.com"}},
		"environment": {upstreams + `,"headers":{"request":{"set":{"Host":["{env.MCP_HOST}"]}}}}`, []string{"10.0.0.5:3001", "[::1]:80", "env.example"}},
		"the request": {upstreams + `,"headers":{"request":{"set":{"Host":["{http.request.header.X-Host}"]}}}}`, []string{"10.0.0.5:3001", "[::1]:80"}},
		"TLS":         {`{"handler":"reverse_proxy","upstreams":[{"dial":"a.example:443"}],"transport":{"protocol":"http","tls":{}}}`, []string{"a.example:443"}},
		"a socket":    {`{"handler":"reverse_proxy","upstreams":[{"dial":"unix//run/mcp.sock"}]}`, nil},
		"a port":      {`{"handler":"reverse_proxy","upstreams":[{"dial":":3001"}]}`, nil},
		"any":         {`{"handler":"static_response"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Addresses(load(t, c.upstream)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
