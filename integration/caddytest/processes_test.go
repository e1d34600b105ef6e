package caddytest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// These make the test of the name that they hold fail, or end its process.
const (
	failing = "MCP_CACHE_TEST_FAILS"
	exiting = "MCP_CACHE_TEST_EXITS"
)

// TestSharedFirst and TestSharedSecond are what [TestSharedRun] runs.
func TestSharedFirst(t *testing.T) { misbehave(t) }

func TestSharedSecond(t *testing.T) { misbehave(t) }

func misbehave(t *testing.T) {
	if os.Getenv(failing) == t.Name() {
		t.Error("it fails as it should")
	}
	if os.Getenv(exiting) == t.Name() {
		os.Exit(3)
	}
}

// TestSharedRun has several processes share two tests: each is run once, and
// what goes wrong in one of the processes is the failure of all.
func TestSharedRun(t *testing.T) {
	for name, c := range map[string]struct {
		setting, said string
		ok            bool
	}{
		"both pass":         {"", "PASS", true},
		"the first fails":   {failing + "=TestSharedFirst", "--- FAIL: TestSharedFirst", false},
		"the second fails":  {failing + "=TestSharedSecond", "--- FAIL: TestSharedSecond", false},
		"one ends its part": {exiting + "=TestSharedSecond", "running TestSharedSecond: exit status 3", false},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-processes", "2", "-test.run", "^TestShared(First|Second)$")
			cmd.Env = append(os.Environ(), c.setting)
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok || !strings.Contains(string(out), c.said) {
				t.Errorf("it ended with %v and said\n%s", err, out)
			}
			for _, test := range []string{"TestSharedFirst", "TestSharedSecond"} {
				if n := strings.Count(string(out), "=== RUN   "+test+"\n"); n != 1 {
					t.Errorf("%s was run %d times", test, n)
				}
			}
			verdict := map[bool]string{true: "PASS", false: "FAIL"}
			for ok, word := range verdict {
				want := 0
				if ok == c.ok {
					want = 1
				}
				if n := strings.Count("\n"+string(out), "\n"+word+"\n"); n != want {
					t.Errorf("%s is said %d times", word, n)
				}
			}
		})
	}
}

// TestPartsHaveAllTests deals as many tests as there may be.
func TestPartsHaveAllTests(t *testing.T) {
	for count := range 60 {
		names := make([]string, count)
		for i := range names {
			names[i] = fmt.Sprint("Test", i)
		}
		parts := deal(names, 24)
		if want := min(count, 24); len(parts) != want {
			t.Errorf("%d tests come in %d parts, want %d", count, len(parts), want)
		}
		all := slices.Concat(parts...)
		slices.Sort(all)
		slices.Sort(names)
		if !slices.Equal(all, names) {
			t.Errorf("of %d tests, the parts have %d: %v", count, len(all), parts)
		}
	}
}
