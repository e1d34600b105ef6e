package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlanted has something go wrong in a package of testdata: each fault that a
// second run could hide fails at once, and a test that fails for a while is named.
func TestPlanted(t *testing.T) {
	for _, c := range []struct {
		fault string
		err   string // "" if it passes
		runs  int
		said  string
	}{
		{fault: "none", runs: 1, said: "8 passed, 0 failed, 0 skipped"},
		{fault: "once", runs: 2, said: "8 passed, 0 failed, 0 skipped\n\nFlaky:\n  TestPlanted in "},
		{fault: "twice", runs: 3, said: " passed at try 3 of 3. At first it said:\n    --- FAIL: TestPlanted "},
		{fault: "always", err: "1 tests failed 3 times", runs: 3, said: "7 passed, 1 failed, 0 skipped"},
		{fault: "skipped", err: `TestPlanted failed, and now ended with "skip"`, runs: 2},
		{fault: "many", err: "6 tests failed; no more than 5 are run again", runs: 1},
		{fault: "leak", err: "found unexpected goroutines", runs: 1},
		{fault: "once and leak", err: "found unexpected goroutines", runs: 1},
		{fault: "exit", err: "TestPlanted was begun and did not end", runs: 1},
		{fault: "exit0", err: "panic: unexpected call to os.Exit(0)", runs: 1},
		{fault: "kill", err: "signal: killed", runs: 1},
		{fault: "fatal", err: "fatal error: sync: unlock of unlocked mutex", runs: 1},
		{fault: "panic", err: "panic: as it should", runs: 1},
		{fault: "panics", err: "panic: as it should", runs: 1},
		{fault: "hang", err: "panic: test timed out after 1s", runs: 1},
		{fault: "process", err: "running TestHealthy, TestPlanted: exit status 3", runs: 1},
	} {
		t.Run(c.fault, func(t *testing.T) {
			runs := filepath.Join(t.TempDir(), "runs")
			t.Setenv("PLANTED", c.fault)
			t.Setenv("PLANTED_RUNS", runs)
			flags := []string{"-count=1"}
			if c.fault == "hang" {
				flags = append(flags, "-timeout=1s")
			}
			out := wantResult(t, c.err, flags, "./testdata/planted")
			if !strings.Contains(out, c.said) {
				t.Errorf("it printed\n%s", out)
			}
			if strings.Contains(out, "nothing is said of what passes") {
				t.Errorf("it printed what a test said that passed:\n%s", out)
			}
			if flaky := c.err == "" && c.runs > 1; flaky != strings.Contains(out, "\nFlaky:\n") {
				t.Errorf("it printed\n%s", out)
			}
			if ran, err := os.ReadFile(runs); err != nil || len(ran) != c.runs {
				t.Errorf("the test was run %d times, %v; want %d", len(ran), err, c.runs)
			}
		})
	}
}

// TestOtherPackages is about packages whose tests cannot be run at all.
func TestOtherPackages(t *testing.T) {
	if out := wantResult(t, "it failed without a failed test", nil, "./testdata/broken"); !strings.Contains(out, "undefined: undefined") {
		t.Errorf("it printed\n%s", out)
	}
	wantResult(t, "exit status 2", []string{"-timeout=nonsense"}, "./testdata/planted")
	wantResult(t, "it failed without a failed test", nil, "./testdata/missing")
}

// TestPackageWithoutEnd is about events that break off, beside a failed test of
// another package.
func TestPackageWithoutEnd(t *testing.T) {
	packages, err := read(strings.NewReader(`{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestA"}
{"Action":"pass","Package":"a","Test":"TestA"}
`), new(strings.Builder))
	if err != nil || len(packages) != 1 {
		t.Fatalf("%d packages, %v", len(packages), err)
	}
	if _, err := packages[0].Judge(); err == nil || err.Error() != "it did not end" {
		t.Errorf("the verdict is %v", err)
	}
}

// wantResult runs a package and returns what that prints. It fails unless the
// error has a text, or there is none where that is empty.
func wantResult(t *testing.T, want string, flags []string, pkg string) string {
	t.Helper()
	var out strings.Builder
	err := (&Retest{Out: &out, Flags: flags}).Run(t.Context(), []string{pkg})
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("the result is %v, want %q. It printed\n%s", err, want, out.String())
	}
	return out.String()
}
