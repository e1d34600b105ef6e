package mcpcache

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestOwnUpstream(t *testing.T) {
	dials := func(dials ...string) string {
		upstreams := make([]string, len(dials))
		for i, dial := range dials {
			upstreams[i] = fmt.Sprintf(`{"dial":%q}`, dial)
		}
		return `{"handler":"reverse_proxy","upstreams":[` + strings.Join(upstreams, ",") + `]}`
	}
	for config, want := range map[string]bool{
		dials("mcp.example.com:443"): false, dials("10.1.2.3:80", "[2001:db8::1]:80"): false,
		dials("127.0.0.1:3001"): true, dials("127.8.8.8:1"): true, dials("[::1]:3001"): true, dials("[::ffff:127.0.0.1]:1"): true,
		dials("localhost:3001"): true, dials("LocalHost.:3001"): true, dials("mcp.localhost:80"): true, dials(":3001"): true,
		dials("0.0.0.0:1"): true, dials("[fe80::1]:1"): true, dials("unix//run/mcp.sock"): true, dials("stdio/files:80"): true,
		dials("10.1.2.3:80", "127.0.0.1:80"): true, dials("{env.MCP}"): true, dials("{http.vars.mcp}:80"): true, dials(): true,
		`{"handler":"reverse_proxy","upstreams":[{"dial":"10.1.2.3:80"}],"headers":{"request":{"set":{"X-Site":["{env.SITE}"]}}}}`: true,
		`{"handler":"reverse_proxy","dynamic_upstreams":{"source":"srv"},"upstreams":[{"dial":"10.1.2.3:80"}]}`:                    true,
		`{"handler":"subroute","routes":[]}`: true, `[]`: true,
	} {
		if got := ownUpstream(json.RawMessage(config)); got != want {
			t.Errorf("%s: got %v", config, got)
		}
	}
}
