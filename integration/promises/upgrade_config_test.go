package promises

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// caddyfilesOf returns the Caddyfiles of a checkout: its examples, and the golden files that are no mistakes.
func caddyfilesOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"examples/*/Caddyfile", "caddyfile/testdata/*.caddyfiletest"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("there is no %s: %v", pattern, err)
		}
		for _, file := range files {
			if strings.Contains(file, "_mistakes.") {
				continue
			}
			for text := range strings.SplitSeq(caddytest.ReadPage(t, file), "\n==========\n") {
				text, _, _ = strings.Cut(text, "\n----------\n")
				name, _ := filepath.Rel(folder, file)
				for all[name] != "" {
					name += ", another"
				}
				all[name] = text
			}
		}
	}
	return all
}

// accepts has a Caddy read and provision a configuration. It returns the JSON, or the Caddy's complaint.
func accepts(t *testing.T, binary, adapter, config string) (result, complaint string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*fixture.Deadline)
	defer cancel()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"adapt", "--validate", "--adapter", adapter, "--config", file}
	if adapter == "" {
		args = []string{"validate", "--config", file}
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), caddytest.AsCaddy+"=1")
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return "", err.Error() + ": " + failure.String()
	}
	return out.String(), ""
}

// quoted matches text between backticks.
var quoted = regexp.MustCompile("`([^`]+)`")

// newSince returns the names in the part of the changelog that the last release does not have.
func (r release) newSince(t *testing.T) (names []string) {
	t.Helper()
	now, before := caddytest.ReadPage(t, "../../CHANGELOG.md"), caddytest.ReadPage(t, r.file("CHANGELOG.md"))
	_, old, found := strings.Cut(before, "\n## [")
	if rest, isUnreleased := strings.CutPrefix(old, "Unreleased]"); isUnreleased {
		_, old, found = strings.Cut(rest, "\n## [")
	}
	if !found {
		t.Fatal("the changelog of the last release has no heading")
	}
	version, _, _ := strings.Cut(old, "]")
	news, _, found := strings.Cut(now, "\n## ["+version+"]")
	if !found {
		t.Fatalf("CHANGELOG.md has no heading of %s, which is the last release", version)
	}
	for _, match := range quoted.FindAllStringSubmatch(news, -1) {
		names = append(names, match[1])
	}
	return names
}

// TestUpgradeConfigurations gives this Caddy all Caddyfiles of the last release and their JSON, and the last
// release all of this commit. Each Caddy accepts them. The last release may refuse an option only if
// CHANGELOG.md names it as new.
func TestUpgradeConfigurations(t *testing.T) {
	last := released(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, way := range map[string]struct {
		folder, own, other string
		mayLack            []string
	}{
		"forward": {string(last), last.file("caddy"), self, nil},
		"back":    {"../..", self, last.file("caddy"), last.newSince(t)},
	} {
		t.Run(name, func(t *testing.T) {
			files := caddyfilesOf(t, way.folder)
			var mu sync.Mutex
			accepted := 0
			for name, text := range files {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					config, complaint := accepts(t, way.own, "caddyfile", text)
					if complaint != "" {
						return // it needs something that is not here
					}
					mu.Lock()
					accepted++
					mu.Unlock()
					is, complaint := accepts(t, way.other, "caddyfile", text)
					if complaint == "" && is != config {
						_, complaint = accepts(t, way.other, "", config)
					}
					isNew := func(name string) bool { return strings.Contains(complaint, name) }
					if complaint != "" && !slices.ContainsFunc(way.mayLack, isNew) {
						t.Errorf("the other does not take it: %s", complaint)
					}
				})
			}
			t.Cleanup(func() {
				if accepted < len(files)*9/10 {
					t.Errorf("only %d of %d configurations are accepted where they come from", accepted, len(files))
				}
			})
		})
	}
}
