package documents

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

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// TestExamples adapts, formats, validates and starts the Caddyfile of every
// folder in examples.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/Caddyfile")
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
		source, err := os.ReadFile("../../examples/container/" + name)
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
			if stdout, stderr, code := caddytest.Run(t, append(words, "--help")...); code != 0 {
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
	caddytest.SetVariables(t, source)
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
	for _, addr := range caddytest.StartAdapted(t, adapted) {
		res, err := fixture.HTTPClient(t, "example", "").Get("http://" + addr + "/")
		if err != nil {
			t.Errorf("asking %s: %v", addr, err)
			continue
		}
		_ = res.Body.Close()
	}
}
