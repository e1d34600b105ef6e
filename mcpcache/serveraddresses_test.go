package mcpcache

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestServerAddresses finds what the server is sent as its address, and nothing that
// depends on a request.
func TestServerAddresses(t *testing.T) {
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
		"any":         {`{"handler":"mcp_cache_stand","name":"addresses"}`, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := mustProvision(t, config("addresses", "upstream", c.upstream))
			defer l.cancel()
			if got := l.backend.Slash().Addresses; !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		})
	}
}
