package documents

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(\w+ \*testing\.[TF]\)`)
	namedTest    = regexp.MustCompile("^`(?:(\\w+)\\.)?((?:Test|Fuzz)\\w+)`$")
	borderLink   = regexp.MustCompile(`(?m)^\| \[([^\]]+)\]\(#`)
)

// TestThreatsHaveTests holds the page of threats against the tests that it names. Each border has a section with two
// tables: attacks, and limits. Each attack names its tests, and each name belongs to one test function. Attacks on
// releases name steps of .ci/run instead.
func TestThreatsHaveTests(t *testing.T) {
	tests := testFunctions(t)
	page := caddytest.ReadPage(t, "../../mcpcache/THREATS.md")
	_, after, _ := strings.Cut(page, "\n## Borders\n")
	first, after, _ := strings.Cut(after, "\n## ")
	borders := borderLink.FindAllStringSubmatch(first, -1)
	if len(borders) < 5 {
		t.Fatalf("the page has %d borders", len(borders))
	}
	for _, border := range borders {
		_, section, found := strings.Cut("\n## "+after, "\n## "+strings.ToUpper(border[1][:1])+border[1][1:]+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !found || !strings.Contains(section, "\n| does not hold | what to do |\n") {
			t.Errorf("border %q has no section, or that does not say what does not hold", border[1])
			continue
		}
		attacks, _, _ := strings.Cut(section, "\n| does not hold |")
		rows := strings.Split(strings.TrimSpace(attacks), "\n")[2:]
		if len(rows) == 0 {
			t.Errorf("border %q has no attacks", border[1])
		}
		for _, row := range rows {
			cells := strings.Split(strings.Trim(row, "| "), " | ")
			switch {
			case len(cells) != 3:
				t.Errorf("%q has %d cells", row, len(cells))
			case border[1] != "releases":
				wantTests(t, tests, cells[0], strings.Fields(cells[2]))
			}
		}
	}
}

// wantTests checks that an attack names tests that there are. One that is in several packages has to name its own.
func wantTests(t *testing.T, tests map[string][]string, attack string, names []string) {
	t.Helper()
	if len(names) == 0 {
		t.Errorf("%q names no test", attack)
	}
	for _, name := range names {
		match := namedTest.FindStringSubmatch(name)
		if match == nil {
			t.Errorf("%q: %s is not the name of a test", attack, name)
			continue
		}
		packages := tests[match[2]]
		if match[1] == "" && len(packages) != 1 || match[1] != "" && !slices.Contains(packages, match[1]) {
			t.Errorf("%q: the test %s is in the packages %q", attack, name, packages)
		}
	}
}

// testFunctions returns the packages of each test function of the module.
func testFunctions(t *testing.T) map[string][]string {
	t.Helper()
	tests := make(map[string][]string)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".git"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		for _, match := range testFunction.FindAllStringSubmatch(caddytest.ReadPage(t, path), -1) {
			tests[match[1]] = append(tests[match[1]], filepath.Base(filepath.Dir(path)))
		}
		return nil
	})
	if err != nil || len(tests) < 1000 {
		t.Fatalf("found %d tests: %v", len(tests), err)
	}
	return tests
}
