package caddytest

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// storyUpstream is the MCP server that the Caddyfiles of the examples name.
const storyUpstream = "http://127.0.0.1:3001/mcp"

// StartExample runs the Caddyfile of an example in front of the world's upstream
// and returns the adapted configuration.
func (w *World) StartExample(t *testing.T, story string) (adapted []byte) {
	t.Helper()
	source, err := os.ReadFile("../../examples/" + story + "/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), storyUpstream) {
		t.Fatalf("the example %s is not in front of %s", story, storyUpstream)
	}
	SetVariables(t, source)
	source = []byte(strings.ReplaceAll(string(source), storyUpstream, w.Host.URL))
	if adapted, _, err = caddyconfig.GetAdapter("caddyfile").Adapt(source, nil); err != nil {
		t.Fatalf("adapting: %v", err)
	}
	addr := StartAdapted(t, adapted)[0]
	w.Proxy = &Proxy{URL: "http://" + addr + "/mcp", Addr: addr, T: t}
	return adapted
}

// StartAdapted starts an adapted configuration, until the test ends, and
// returns where its servers are.
func StartAdapted(t *testing.T, adapted []byte) (addrs []string) {
	t.Helper()
	movable, addrs := moveToLoopback(t, adapted)
	t.Cleanup(func() {
		if err := Load("text/caddyfile", []byte(Globals(""))); err != nil {
			t.Errorf("going idle: %v", err)
		}
	})
	if err := Load("application/json", movable); err != nil {
		t.Fatalf("starting: %v", err)
	}
	return addrs
}

var variable = regexp.MustCompile(`\{(?:\$|env\.)([A-Z][A-Z0-9_]*)\}`)

// SetVariables gives a value to every environment variable that an example
// uses without a default.
func SetVariables(t *testing.T, source []byte) {
	for _, match := range variable.FindAllSubmatch(source, -1) {
		if name := string(match[1]); os.Getenv(name) == "" {
			t.Setenv(name, "example")
		}
	}
}

// moveToLoopback puts an adapted configuration's servers on free loopback
// ports without TLS, where a test may start them, and returns those.
func moveToLoopback(t *testing.T, adapted []byte) (moved []byte, addrs []string) {
	t.Helper()
	var config map[string]any
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	apps, _ := config["apps"].(map[string]any)
	delete(apps, "tls")
	web, _ := apps["http"].(map[string]any)
	servers, _ := web["servers"].(map[string]any)
	if len(servers) == 0 {
		t.Fatal("the example has no server")
	}
	for _, s := range servers {
		server, _ := s.(map[string]any)
		addr := fixture.FreeAddr(t)
		server["listen"] = []string{addr}
		server["automatic_https"] = map[string]any{"disable": true}
		delete(server, "tls_connection_policies")
		addrs = append(addrs, addr)
	}
	config["admin"] = map[string]any{"listen": Running.Admin, "config": map[string]any{"persist": false}}
	config["storage"] = map[string]any{"module": "file_system", "root": Running.Home}
	config["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{"writer": map[string]any{"output": "discard"}}}}
	moved, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return moved, addrs
}
