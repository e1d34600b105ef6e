package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// TestExamples adapts, formats, validates and starts the Caddyfile of every
// folder in examples.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*/Caddyfile")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example found: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) { runExample(t, file) })
	}
}

// TestContainerCommands asks each command of the cache in examples/container for its help, with its
// flags. The deep step container runs them.
func TestContainerCommands(t *testing.T) {
	found := 0
	for _, name := range []string{"Dockerfile", "compose.yaml"} {
		source, err := os.ReadFile("../examples/container/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range regexp.MustCompile(`\[.*"mcp-cache".*\]`).FindAll(source, -1) {
			var words []string
			if err := json.Unmarshal(list, &words); err != nil {
				t.Fatalf("%s: %s: %v", name, list, err)
			}
			if words[0] == "/usr/bin/caddy" {
				words = words[1:]
			}
			found++
			if stdout, stderr, code := caddyRun(t, append(words, "--help")...); code != 0 {
				t.Errorf("%s: %v gave %d: %s%s", name, words, code, stdout, stderr)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d commands of the cache were found, of the health check and the demo server", found)
	}
}

func runExample(t *testing.T, file string) {
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(file), "README.md")); err != nil {
		t.Errorf("the example does not explain itself: %v", err)
	}
	if formatted := caddyfile.Format(source); !bytes.Equal(source, formatted) {
		t.Errorf("caddy fmt would write\n%s", formatted)
	}
	setVariables(t, source)
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(source, map[string]any{"filename": file})
	if err != nil {
		t.Fatalf("adapting: %v", err)
	}
	for _, w := range warnings {
		t.Errorf("adapting warns: %v", w)
	}
	var config caddy.Config
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatalf("reading adapted configuration: %v", err)
	}
	config.StorageRaw = json.RawMessage(`{"module":"file_system","root":"` + t.TempDir() + `"}`)
	if err := caddy.Validate(&config); err != nil {
		t.Fatalf("validating: %v", err)
	}
	for _, addr := range startExample(t, adapted) {
		res, err := fixture.HTTPClient(t, "example", "").Get("http://" + addr + "/")
		if err != nil {
			t.Errorf("asking %s: %v", addr, err)
			continue
		}
		_ = res.Body.Close()
	}
}

// startExample starts an adapted configuration, until the test ends, and
// returns where its servers are.
func startExample(t *testing.T, adapted []byte) (addrs []string) {
	t.Helper()
	movable, addrs := moveToLoopback(t, adapted)
	t.Cleanup(func() {
		if err := load("text/caddyfile", []byte(globals(""))); err != nil {
			t.Errorf("going idle: %v", err)
		}
	})
	if err := load("application/json", movable); err != nil {
		t.Fatalf("starting: %v", err)
	}
	return addrs
}

var variable = regexp.MustCompile(`\{(?:\$|env\.)([A-Z][A-Z0-9_]*)\}`)

// setVariables gives a value to every environment variable that an example
// uses without a default.
func setVariables(t *testing.T, source []byte) {
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
	config["admin"] = map[string]any{"listen": running.admin, "config": map[string]any{"persist": false}}
	config["storage"] = map[string]any{"module": "file_system", "root": running.home}
	config["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{"writer": map[string]any{"output": "discard"}}}}
	moved, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return moved, addrs
}
