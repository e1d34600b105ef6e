// Retest runs go test, and runs what failed by itself once more:
//
//	retest [flag...] package...
//
// The flags and packages are those of go test; a flag's value follows an equals
// sign. Where packages failed by named tests only, and each test of theirs ran to
// its end, the tests that failed are run again by themselves, at most twice and at
// most five of them. One that passes then is listed under "Flaky:" at the end of
// the output, with what it said when it failed. The exit status is 0 if every
// test passed in the end.
//
// Whatever else went wrong is an error at once, since a second run could hide it:
// see [Package.Judge].
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

const (
	// tries is how often a test is run until it has failed for good.
	tries = 3
	// mostAgain is how many tests may be run again. More of them are no accident.
	mostAgain = 5
)

func main() {
	var flags, packages []string
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(arg, "-") {
			flags = append(flags, arg)
		} else {
			packages = append(packages, arg)
		}
	}
	if len(packages) == 0 {
		fmt.Fprintln(os.Stderr, "usage: retest [go test's flags] package...")
		os.Exit(2)
	}
	r := &Retest{Out: os.Stdout, Flags: flags}
	if err := r.Run(context.Background(), packages); err != nil {
		fmt.Fprintln(os.Stderr, "retest:", err)
		os.Exit(1)
	}
}

// Retest is one run of this command.
type Retest struct {
	Out   io.Writer // gets what go test would print, the totals, and what is flaky
	Flags []string  // of go test

	again map[test]string // tests that are to be run again, and what they said at first
	flaky []string        // what is to be said of tests that passed then
}

// test is a test of a package, not one of its subtests.
type test struct{ pkg, name string }

// Run runs the tests of packages. Its error says why they did not pass.
func (r *Retest) Run(ctx context.Context, packages []string) error {
	r.again = make(map[test]string)
	first, err := goTest(ctx, r.Out, r.Flags, packages...)
	if err != nil {
		return err
	}
	for _, p := range first {
		failed, err := p.Judge()
		if err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		for _, name := range failed {
			r.again[test{p.Path, name}] = p.Said(name)
		}
	}
	if n := len(r.again); n > mostAgain {
		return fmt.Errorf("%d tests failed; no more than %d are run again", n, mostAgain)
	}
	for try := 2; try <= tries && len(r.again) > 0; try++ {
		if err := r.retry(ctx, try); err != nil {
			return err
		}
	}
	failed := len(r.again)
	r.total(first, failed)
	if failed > 0 {
		return fmt.Errorf("%d tests failed %d times", failed, tries)
	}
	return nil
}

// retry runs the tests once more that have not passed yet, those of a package
// together.
func (r *Retest) retry(ctx context.Context, try int) error {
	byPackage := make(map[string][]string)
	for t := range r.again {
		byPackage[t.pkg] = append(byPackage[t.pkg], t.name)
	}
	for _, path := range slices.Sorted(maps.Keys(byPackage)) {
		names := slices.Sorted(slices.Values(byPackage[path]))
		pattern := "^(" + strings.Join(names, "|") + ")$"
		fmt.Fprintf(r.Out, "\ngo test -count=1 -run '%s' %s\n", pattern, path)
		packages, err := goTest(ctx, r.Out, append(slices.Clip(r.Flags), "-count=1", "-run="+pattern), path)
		if err != nil {
			return err
		}
		for _, p := range packages {
			failed, err := p.Judge()
			if err != nil {
				return fmt.Errorf("%s: %w", p.Path, err)
			}
			for _, name := range names {
				switch t := (test{path, name}); {
				case p.Results[name] == "pass":
					r.flaky = append(r.flaky, fmt.Sprintf("  %s in %s passed at try %d of %d. At first it said:\n%s",
						name, path, try, tries, indent(r.again[t])))
					delete(r.again, t)
				case !slices.Contains(failed, name):
					return fmt.Errorf("%s: %s failed, and now ended with %q", path, name, cmp.Or(p.Results[name], "nothing"))
				}
			}
		}
	}
	return nil
}

// total says how many tests there were, and which were flaky.
func (r *Retest) total(packages []*Package, failed int) {
	counts := make(map[string]int)
	for _, p := range packages {
		for name, result := range p.Results {
			if isTest(name) {
				counts[result]++
			}
		}
	}
	fmt.Fprintf(r.Out, "\n%d passed, %d failed, %d skipped\n", counts["pass"]+counts["fail"]-failed, failed, counts["skip"])
	if len(r.flaky) > 0 {
		fmt.Fprintf(r.Out, "\nFlaky:\n%s", strings.Join(r.flaky, ""))
	}
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}
