package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/logging"

	_ "github.com/caddy-mcp/mcp-cache/caddyfile"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/off"
)

func TestServeConfigIsThatOfTheDirective(t *testing.T) {
	t.Setenv("MCP_CACHE_SERVE_1", "") // so that they are what they were afterwards
	t.Setenv("MCP_CACHE_SERVE_2", "")
	logs := map[string]string{
		"":         "output stderr\nlevel WARN\nexclude http.handlers.mcp_cache.feed http.handlers.reverse_proxy\nformat console {\ntime_format wall\nlevel_format upper\n}",
		"stderr":   "output stderr\nformat json",
		"a b.json": "output file `a b.json`\nformat json",
	}
	for name, c := range map[string]struct {
		from, to, minTTL, log string
		header                http.Header
		site                  string
	}{
		"host":          {from: "127.0.0.1:8080", to: "http://127.0.0.1:3001/mcp", site: "http://:8080 {\n bind 127.0.0.1\n mcp_cache http://127.0.0.1:3001/mcp\n}"},
		"all addresses": {from: ":8081", to: "https://mcp.example.com", site: "http://:8081 {\n mcp_cache https://mcp.example.com\n}"},
		"options":       {from: ":1", to: "http://127.0.0.1:1/mcp", minTTL: "1m", log: "stderr", site: "http://:1 {\n mcp_cache http://127.0.0.1:1/mcp {\n min_ttl 1m\n}\n}"},
		"log":           {from: ":1", to: "http://127.0.0.1:1/mcp", log: "a b.json", site: "http://:1 {\n mcp_cache http://127.0.0.1:1/mcp\n}"},
		"headers": {from: ":1", to: "http://127.0.0.1:1/mcp", minTTL: "1m", header: http.Header{"X-Tenant": {"s3cret one"}, "Authorization": {"Bearer s3cret`{env.HOME}"}},
			site: "http://:1 {\n mcp_cache http://127.0.0.1:1/mcp {\n min_ttl 1m\n store off\n reverse_proxy {\n" +
				"header_up Authorization {env.MCP_CACHE_SERVE_1}\n header_up X-Tenant {env.MCP_CACHE_SERVE_2}\n}\n}\n}"},
		"IPv6": {from: "[::1]:8080", to: "http://[::1]:1/", site: "http://:8080 {\n bind ::1\n mcp_cache http://[::1]:1/\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving{from: c.from, servers: []served{{url: c.to, header: c.header}}, minTTL: c.minTTL, log: c.log, admin: "localhost:2019"}
			got, err := s.config(inEnvironment())
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range slices.Sorted(maps.Keys(c.header)) {
				if value := os.Getenv(fmt.Sprintf("MCP_CACHE_SERVE_%d", i+1)); value != c.header.Get(name) {
					t.Errorf("header %s is %q", name, value)
				}
			}
			options := "{\n admin localhost:2019\n persist_config off\n grace_period 3s\n auto_https off\n servers {\nprotocols h1\n}\n log {\n" + logs[c.log] + "\n}\n}\n"
			want, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(options+c.site), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(decoded(t, got), decoded(t, want)) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func decoded(t *testing.T, config []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(config, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// Several servers are a toolkit, each with the options.
func TestServeConfigOfSeveral(t *testing.T) {
	s := serving{
		from: ":1", minTTL: "1m", log: "stderr", admin: "localhost:2019",
		servers: []served{{name: "docs", url: "http://127.0.0.1:3001/mcp"}, {name: "github", url: "http://127.0.0.1:3002/mcp"}},
	}
	got, err := s.config(inEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	site := "http://:1 {\n mcp_cache {\n server docs http://127.0.0.1:3001/mcp {\n min_ttl 1m\n}\n server github http://127.0.0.1:3002/mcp {\n min_ttl 1m\n}\n}\n}"
	options := "{\n admin localhost:2019\n persist_config off\n grace_period 3s\n auto_https off\n servers {\nprotocols h1\n}\n log {\noutput stderr\nformat json\n}\n}\n"
	want, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(options+site), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(decoded(t, got), decoded(t, want)) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestServeConfigRefusesBadURLs(t *testing.T) {
	for name, to := range map[string]string{
		"no scheme":    "localhost:3001/mcp",
		"other scheme": "ftp://localhost/mcp",
		"no host":      "http:///mcp",
		"user":         "http://user:s3cret@localhost/mcp",
		"query":        "http://localhost/mcp?key=s3cret",
		"two URLs":     "http://localhost/mcp http://localhost/mcp",
		"line break":   "http://localhost/mcp\nrespond hello",
		"backquote":    "http://localhost/mcp`\nrespond `hello",
		"placeholder":  "http://{env.HOST}/mcp",
		"block":        "http://localhost/mcp {",
	} {
		t.Run(name, func(t *testing.T) {
			config, err := (&serving{from: "127.0.0.1:8080", servers: []served{{url: to}}, admin: "localhost:2019"}).config(shown)
			if err == nil {
				t.Fatalf("got no error but %s", config)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error repeats a secret: %v", err)
			}
			if strings.Contains(err.Error(), "Caddyfile") {
				t.Errorf("the error speaks of a Caddyfile: %v", err)
			}
		})
	}
}
