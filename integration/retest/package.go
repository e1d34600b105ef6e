package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// Package is what became of the tests of one package.
type Package struct {
	Path    string
	Result  string            // "pass", "fail", "skip", or "" if it has not ended
	Results map[string]string // the same of each test and subtest

	order  []string            // names of tests as they began
	output map[string][]string // lines by test; "" for those of none
}

// event is a line of go test -json: see "go doc test2json" and "go help buildjson".
type event struct {
	Action, Package, Test, Output string
}

// goTest runs go test with flags on packages, and returns what became of each. To
// out goes what go test prints without -json.
func goTest(ctx context.Context, out io.Writer, flags []string, packages ...string) ([]*Package, error) {
	args := slices.Concat([]string{"test", "-json"}, flags, packages)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("running go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("running go test: %w", err)
	}
	all, readErr := read(events, out)
	if err := errors.Join(readErr, cmd.Wait()); err != nil && !slices.ContainsFunc(all, failed) {
		return nil, fmt.Errorf("running go test: %w", err)
	} else if readErr != nil {
		return nil, fmt.Errorf("reading what go test says: %w", readErr)
	}
	return all, nil
}

// read returns the packages of which events tell.
func read(events io.Reader, out io.Writer) ([]*Package, error) {
	var all []*Package
	byPath := make(map[string]*Package)
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		} else if err != nil {
			return all, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return all, fmt.Errorf("%q: %w", line, err)
		}
		if e.Action == "build-output" {
			fmt.Fprint(out, e.Output)
		}
		if e.Package == "" {
			continue
		}
		p := byPath[e.Package]
		if p == nil {
			p = &Package{Path: e.Package, Results: make(map[string]string), output: make(map[string][]string)}
			byPath[e.Package], all = p, append(all, p)
		}
		if p.add(e) {
			p.print(out)
		}
	}
	return all, nil
}

// add notes an event, and reports whether it is the last of its package.
func (p *Package) add(e event) (last bool) {
	switch e.Action {
	case "run":
		p.Results[e.Test] = ""
		p.order = append(p.order, e.Test)
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			p.output[e.Test] = append(p.output[e.Test], e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test != "" {
			p.Results[e.Test] = e.Action
			return false
		}
		p.Result = e.Action
		return true
	}
	return false
}

// print prints what go test does of a package: the last line, or all that belongs
// to a failure.
func (p *Package) print(out io.Writer) {
	lines := p.output[""]
	if !failed(p) && len(lines) > 0 {
		lines = lines[len(lines)-1:]
	}
	for _, name := range p.order {
		if r := p.Results[name]; failed(p) && isTest(name) && r != "pass" && r != "skip" {
			fmt.Fprint(out, p.Said(name))
		}
	}
	fmt.Fprint(out, strings.Join(lines, ""))
}

// Said returns what a test and its subtests said that did not pass, behind the
// line that says so of each.
func (p *Package) Said(name string) string {
	var b strings.Builder
	for _, n := range p.order {
		if n != name && !strings.HasPrefix(n, name+"/") || p.Results[n] == "pass" || p.Results[n] == "skip" {
			continue
		}
		lines := slices.Clone(p.output[n])
		verdict := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimLeft(l, " "), "--- ") })
		if verdict < 0 {
			fmt.Fprintf(&b, "--- no end: %s\n", n)
		} else {
			b.WriteString(lines[verdict])
			lines = slices.Delete(lines, verdict, verdict+1)
		}
		b.WriteString(strings.Join(lines, ""))
	}
	return b.String()
}

// signs are lines of trouble that is not one test's, though tests may have failed
// beside it or by it.
var signs = []*regexp.Regexp{
	// What the runtime says at the end of a process: a panic, a fatal error, a time-out, SIGQUIT.
	regexp.MustCompile(`^panic: `),
	regexp.MustCompile(`^fatal error: `),
	regexp.MustCompile(`^goroutine \d+ .*\[.*\]:$`),
	regexp.MustCompile(`^\*\*\* Test (killed|I/O incomplete)`),
	regexp.MustCompile(`^(exit status \d+|signal: .*)$`),
	// The race detector.
	regexp.MustCompile(`DATA RACE|race detected during execution of test`),
	// Goroutines that are left: goleak, the integration tests, and a bubble of testing/synctest.
	regexp.MustCompile(`found unexpected goroutines|goroutines are left|there are more goroutines than before`),
	// A process of the integration tests that ended otherwise than with 0 or 1.
	regexp.MustCompile(`^running .*: (signal: .*|exit status ([02-9]|\d\d+).*)$`),
}

// Judge returns the tests by which a package failed, if nothing but these failed
// and all ran to their end. Its error says what else there was. Of a package that
// passed it returns nothing.
func (p *Package) Judge() (tests []string, err error) {
	switch p.Result {
	case "":
		return nil, errors.New("it did not end")
	case "pass", "skip":
		return nil, nil
	}
	for _, lines := range p.output {
		for _, line := range lines {
			line = strings.TrimRight(line, "\n")
			if slices.ContainsFunc(signs, func(r *regexp.Regexp) bool { return r.MatchString(line) }) {
				return nil, fmt.Errorf("it failed, and said %q", strings.TrimSpace(line))
			}
		}
	}
	for _, name := range p.order {
		switch p.Results[name] {
		case "":
			return nil, fmt.Errorf("%s was begun and did not end", name)
		case "fail":
			if isTest(name) {
				tests = append(tests, name)
			}
		}
	}
	if len(tests) == 0 {
		return nil, errors.New("it failed without a failed test")
	}
	return tests, nil
}

func failed(p *Package) bool { return p.Result == "fail" }

// isTest tells a test from a subtest by its name.
func isTest(name string) bool { return !strings.Contains(name, "/") }
