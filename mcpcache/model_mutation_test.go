package mcpcache

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var modelMutations = flag.Bool("model.mutations", false, "whether to test that the model test finds known bugs")

// mutation is a known bug that is put back into the product.
type mutation struct {
	name  string
	edits []replacement
	// found is what the model test has to say of it.
	found string
	// several says that the model needs several servers for that.
	several bool
	// by is the test that finds it instead, and where: one that takes several rare
	// things in a row, which the model's walks do not have in that many steps.
	by testOf
}

// testOf is a test of a package.
type testOf struct{ name, folder string }

// replacement replaces text that a file has exactly once.
type replacement struct{ file, old, new string }

// mutationSteps is within how many steps a known bug has to be found.
const mutationSteps = 60_000

// TestModelMutations is the test of the model test: with a known bug in the
// product it has to fail, and to say why. Without -model.mutations the bugs are only
// looked for in the product.
func TestModelMutations(t *testing.T) {
	for _, m := range slices.Concat(mutations, toolkitMutations, fleetMutations) {
		t.Run(m.name, func(t *testing.T) {
			if !*modelMutations {
				m.overlay(t)
				return
			}
			args := []string{"test", "-count=1", "-vet=off", "-overlay", m.overlay(t)}
			found := regexp.MustCompile(`-model.seed=\d+: after \d+ steps: .*(` + m.found + ")")
			if m.by.name != "" {
				args = append(args, "-failfast", "-run", "^"+m.by.name+"$", m.by.folder)
				found = regexp.MustCompile("--- FAIL: " + m.by.name + `\b`)
			} else {
				model := "^TestModel$"
				if m.several {
					model = "^TestModelToolkit$"
				}
				args = append(args, "-run", model, ".", "-model.steps", strconv.Itoa(mutationSteps), "-model.shrink", "0s")
			}
			m.wantFound(t, exec.Command("go", args...), found)
		})
	}
}

// wantFound runs a test with the bug, which has to fail and to say why.
func (m mutation) wantFound(t *testing.T, cmd *exec.Cmd, found *regexp.Regexp) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("the bug was not found:\n%s", out)
	}
	said := found.Find(out)
	if said == nil {
		t.Fatalf("the test failed for another reason:\n%s", out)
	}
	t.Logf("%s", said)
}

// overlay writes the mutated files and returns the path of an overlay that puts
// them in place of the real ones.
func (m mutation) overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	mutated, replace := make(map[string]string), make(map[string]string)
	for i, e := range m.edits {
		original, err := filepath.Abs(e.file)
		if err != nil {
			t.Fatal(err)
		}
		if replace[original] == "" {
			source, err := os.ReadFile(original)
			if err != nil {
				t.Fatal(err)
			}
			mutated[original], replace[original] = string(source), filepath.Join(dir, strconv.Itoa(i)+".go")
		}
		if n := strings.Count(mutated[original], e.old); n != 1 {
			t.Fatalf("%s has %q %d times, not once: the mutation has to follow the product", e.file, e.old, n)
		}
		mutated[original] = strings.Replace(mutated[original], e.old, e.new, 1)
		if err := os.WriteFile(replace[original], []byte(mutated[original]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
