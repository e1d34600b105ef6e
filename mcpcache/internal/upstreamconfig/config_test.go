package upstreamconfig

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMayDifferElsewhere(t *testing.T) {
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
		if got := Read([]byte(config)).MayDifferElsewhere(); got != want {
			t.Errorf("%s: got %v", config, got)
		}
	}
}

func TestUpstreamURL(t *testing.T) {
	const one = `"upstreams":[{"dial":"10.0.0.1:3001"}]`
	for config, want := range map[string]struct {
		base  string
		known bool
	}{
		`{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:3001"}]}`:                                        {"http://127.0.0.1:3001", true},
		`{"handler":"reverse_proxy","upstreams":[{"dial":"a:3001"},{"dial":"b:3001"}]}`:                              {"http://a:3001", true},
		`{"handler":"reverse_proxy","upstreams":[{"dial":"a:80"}]}`:                                                  {"http://a", true},
		`{"handler":"reverse_proxy","upstreams":[{"dial":"localhost:80"}]}`:                                          {"http://localhost", true},
		`{"handler":"reverse_proxy","upstreams":[{"dial":"[::1]:3001"}]}`:                                            {"http://[::1]:3001", true},
		`{"handler":"reverse_proxy","transport":{"protocol":"http","tls":{}},"upstreams":[{"dial":"a:443"}]}`:        {"https://a", true},
		`{"handler":"reverse_proxy","transport":{"protocol":"http","tls":{}},"upstreams":[{"dial":"a:8443"}]}`:       {"https://a:8443", true},
		`{"handler":"reverse_proxy","transport":{"protocol":"http","tls":{}},"upstreams":[{"dial":"{env.A}:8443"}]}`: {"https://localhost", false},
		`{"handler":"reverse_proxy","upstreams":[{"dial":"unix//run/mcp.sock"}]}`:                                    {"http://localhost", false},
		`{"handler":"reverse_proxy","upstreams":[{"dial":"a"}]}`:                                                     {"http://localhost", false},
		`{"handler":"reverse_proxy","upstreams":[]}`:                                                                 {"http://localhost", false},
		`{"handler":"reverse_proxy","dynamic_upstreams":{"source":"srv"}}`:                                           {"http://localhost", false},
		`{"handler":"static_response"}`:                                                                              {"http://localhost", false},
		`{"handler":"static_response","upstreams":5}`:                                                                {"http://localhost", false},
		// These go elsewhere, or nobody knows where.
		`{"handler":"subroute",` + one + `}`:                                                                              {"http://10.0.0.1:3001", false},
		`{"handler":"reverse_proxy","dynamic_upstreams":{"source":"a"},` + one + `}`:                                      {"http://10.0.0.1:3001", false},
		`{"handler":"reverse_proxy","transport":{"protocol":"http","forward_proxy_url":"http://b"},` + one + `}`:          {"http://10.0.0.1:3001", false},
		`{"handler":"reverse_proxy","transport":{"protocol":"http","network_proxy":{"from":"url"}},` + one + `}`:          {"http://10.0.0.1:3001", false},
		`{"handler":"reverse_proxy","upstreams":[{"dial":":3001"}]}`:                                                      {"http://:3001", false},
		`{"handler":"reverse_proxy","upstreams":[{"dial":"{http.request.header.X}:3001"}]}`:                               {"http://localhost", false},
		`{"handler":"reverse_proxy","transport":{"protocol":"upstream_host"},"upstreams":[{"dial":"10.255.255.1:3001"}]}`: {"http://10.255.255.1:3001", true},
	} {
		if urls, known := Read([]byte(config)).URLs("/x"); urls[0] != want.base+"/x" || known != want.known {
			t.Errorf("%s: got %s, %v, want %+v", config, urls, known, want)
		}
	}
}

// Of several upstreams, status tells all, each once.
func TestReplicaURLs(t *testing.T) {
	for upstreams, want := range map[string][]string{
		`{"dial":"a:1"}`: {"http://a:1/mcp"},
		`{"dial":"a:1"},{"dial":"b:80"},{"dial":"c:1"}`: {"http://a:1/mcp", "http://b/mcp", "http://c:1/mcp"},
		`{"dial":"a:1"},{"dial":"b:1"},{"dial":"a:1"}`:  {"http://a:1/mcp", "http://b:1/mcp"},
		`{"dial":"unix//a"},{"dial":"unix//b"}`:         {"http://localhost/mcp"},
		`{"dial":"{env.A}:1"},{"dial":"b:1"}`:           {"http://localhost/mcp", "http://b:1/mcp"},
	} {
		got, _ := Read([]byte(`{"handler":"reverse_proxy","upstreams":[` + upstreams + `]}`)).URLs("/mcp")
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", upstreams, got, want)
		}
	}
}

func TestPlaceholdersInConfigurations(t *testing.T) {
	raw := `{"handler":"reverse_proxy","headers":{"request":{"set":{"X-User":["{http.auth.user.id}"],"X-Both":["a{http.vars.b}{http.auth.user.id}"]}}},"upstreams":[{"dial":"127.0.0.1:1"}]}`
	if got, want := Read([]byte(raw)).Placeholders(), []string{"http.auth.user.id", "http.vars.b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Read([]byte(`{"handler":"subroute","routes":[{}]}`)).Placeholders(); len(got) != 0 {
		t.Errorf("got %q where there is none", got)
	}
}

// TestAddressFromRequest finds the addresses that depend on the request, and no others.
func TestAddressFromRequest(t *testing.T) {
	for config, want := range map[string]string{
		`{"handler":"reverse_proxy","upstreams":[{"dial":"a:1"},{"dial":"{http.request.header.X}:1"}]}`:                          "{http.request.header.X}:1",
		`{"handler":"reverse_proxy","dynamic_upstreams":{"source":"a","name":"{http.vars.server}"}}`:                             "{http.vars.server}",
		`{"handler":"reverse_proxy","dynamic_upstreams":{"source":"a","name":"{env.NAME}.{http.vars.server}"}}`:                  "{http.vars.server}",
		`{"handler":"reverse_proxy","upstreams":[{"dial":"{env.SERVER}:1"}]}`:                                                    "",
		`{"handler":"reverse_proxy","dynamic_upstreams":{"source":"a","name":"{env.NAME}"}}`:                                     "",
		`{"handler":"reverse_proxy","upstreams":[{"dial":"a:1"}],"headers":{"request":{"set":{"X-A":["{http.request.host}"]}}}}`: "",
		`{"handler":"subroute"}`: "", `[]`: "",
	} {
		if got := Read([]byte(config)).AddressFromRequest(); got != want {
			t.Errorf("%s: got %q, want %q", config, got, want)
		}
	}
}
