package mcpcache

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
}

// replacement replaces text that a file has exactly once.
type replacement struct{ file, old, new string }

var mutations = []mutation{
	{"join an old fetch", []replacement{
		{
			"internal/feed/fetch.go",
			"current := func(m cache.Mark) bool { return f.cache.Current(k, m) }",
			"current := func(cache.Mark) bool { return true }",
		},
		{"lookup.go", "!flight.Since(q.mark)", "false"},
	}, `collapsed: version \d+ of \S+ is old: version \d+ had been announced`},
	{"store under the old epoch", []replacement{
		{"store.go", "Mark: q.mark,", "Mark: x.h.shared.cache.Mark(q.kind),"},
	}, `version \d+ of \S+ is old: version \d+ had been announced`},
	{"ignore the context of lists", []replacement{
		{"internal/cache/partition.go", "return p == Public || p == caller", "return p != caller || p == caller"},
	}, `the private list of \S+ was given to \S+`},
	{"ignore the context of callers", []replacement{
		{"context.go", "return cache.ContextOf([16]byte(sum[:16]))", "return cache.ContextOf([16]byte{sum[0] & 0})"},
	}, `the private list of \S+ was given to \S+|the upstream has never let this caller in`},
	{"serve after DELETE", []replacement{
		{"tap.go", "x.h.shared.admission.EndSession(x.session)", "_ = x.session"},
	}, `session s\d+ has ended|the upstream has refused this caller`},
}

// mutationSteps is within how many steps a known bug has to be found.
const mutationSteps = 20_000

// TestModelMutations is the test of the model test: with a known bug in the
// product it has to fail, and to say why.
func TestModelMutations(t *testing.T) {
	if !*modelMutations {
		t.Skip("only with -model.mutations")
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			cmd := exec.Command("go", "test", "-count=1", "-overlay", m.overlay(t), "-run", "^TestModel$", ".",
				"-model.steps", strconv.Itoa(mutationSteps), "-model.shrink", "0s")
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the bug was not found in %d steps:\n%s", mutationSteps, out)
			}
			found := regexp.MustCompile(`-model.seed=\d+: after \d+ steps: .*(` + m.found + ")").Find(out)
			if found == nil {
				t.Fatalf("the test failed for another reason:\n%s", out)
			}
			t.Logf("%s", found)
		})
	}
}

// overlay writes the mutated files and returns the path of an overlay that puts
// them in place of the real ones.
func (m mutation) overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := make(map[string]string)
	for i, e := range m.edits {
		source, err := os.ReadFile(e.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), e.old); n != 1 {
			t.Fatalf("%s has %q %d times, not once: the mutation has to follow the product", e.file, e.old, n)
		}
		original, err := filepath.Abs(e.file)
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = filepath.Join(dir, strconv.Itoa(i)+".go")
		mutated := strings.Replace(string(source), e.old, e.new, 1)
		if err := os.WriteFile(replace[original], []byte(mutated), 0o600); err != nil {
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
