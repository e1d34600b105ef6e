package caddytest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// processes is how many processes share the tests. Caddy's configuration is a
// process's own, so the tests of one process run one after the other; but most
// of their time they wait.
var processes = flag.Int("processes", 0,
	"how many processes share the tests of a package; 0 for one more than cores (with -race, half of the cores) where all run and nothing is measured, else for one")

// turns is how many parts of the tests a process runs, about. With smaller ones
// the processes end closer together, but each part starts a Caddy.
const turns = 4

// oneProcess are flags that are about a single process: which tests it runs,
// and files that it writes.
var oneProcess = []string{
	"test.run", "test.bench", "test.fuzz", "test.coverprofile", "test.cpuprofile", "test.memprofile",
	"test.blockprofile", "test.mutexprofile", "test.trace",
}

// sharers returns how many processes are to share the tests.
func sharers() int {
	if *processes > 0 {
		return *processes
	}
	if testing.CoverMode() != "" {
		return 1
	}
	for _, name := range oneProcess {
		if flagValue(name) != "" {
			return 1
		}
	}
	// go test runs as many packages at once as there are cores.
	if raceDetector() {
		return max(1, runtime.GOMAXPROCS(0)/2)
	}
	return runtime.GOMAXPROCS(0) + 1
}

// raceDetector reports whether the program has it: the tests compute then, about
// as long as they wait.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func flagValue(name string) string { return flag.Lookup(name).Value.String() }

// team is processes of this program that share its tests.
type team struct {
	program string
	ctx     context.Context

	mu    sync.Mutex // protects the following and the output
	parts [][]string // names of tests that are still to be run
	err   error      // of the parts that failed
}

// runShared runs the tests in so many processes. What a part of them prints
// comes out when it has ended.
func runShared(members int) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the test program: %w", err)
	}
	names, err := testNames(program)
	if err != nil {
		return err
	}
	// SIGQUIT is how `go test` ends a program that has outlived its time.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	w := &team{program: program, ctx: ctx, parts: deal(names, members*turns)}
	var group sync.WaitGroup
	for range members {
		group.Go(w.work)
	}
	group.Wait()
	result := "PASS"
	if w.err != nil {
		result = "FAIL"
	}
	fmt.Println(result)
	return w.err
}

// testNames returns the names of the tests that are to be run.
func testNames(program string) ([]string, error) {
	pattern := flagValue("test.run")
	if strings.Contains(pattern, "/") {
		return nil, errors.New("-processes: -run names subtests, which only one process can run")
	}
	if pattern == "" {
		pattern = "."
	}
	out, err := exec.Command(program, "-test.list", pattern).Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tests: %w", err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "Test") {
			names = append(names, name)
		}
	}
	return names, nil
}

// deal makes n parts of names. Neighbours come into different ones: those of a
// file tend to take as long.
func deal(names []string, n int) [][]string {
	n = min(n, len(names))
	parts := make([][]string, n)
	for i, name := range names {
		parts[i%n] = append(parts[i%n], name)
	}
	return parts
}

// work runs one part after the other until none is left.
func (w *team) work() {
	for {
		w.mu.Lock()
		if len(w.parts) == 0 || w.ctx.Err() != nil {
			w.mu.Unlock()
			return
		}
		part := w.parts[0]
		w.parts = w.parts[1:]
		w.mu.Unlock()
		out, err := w.command(part).CombinedOutput()
		w.mu.Lock()
		_, _ = os.Stdout.Write(withoutVerdict(out))
		if err != nil {
			w.err = errors.Join(w.err, fmt.Errorf("running %s: %w", strings.Join(part, ", "), err))
		}
		w.mu.Unlock()
	}
}

// command runs a part of the tests with the flags of this process.
func (w *team) command(part []string) *exec.Cmd {
	own := []string{"-test.run", "^(" + strings.Join(part, "|") + ")$", "-processes", "1", "-test.testlogfile", ""}
	cmd := exec.CommandContext(w.ctx, w.program, slices.Concat(os.Args[1:], own)...)
	cmd.WaitDelay = fixture.Deadline // for what it has started and left behind
	return cmd
}

// withoutVerdict leaves out the last word of a part: it is not that of all.
func withoutVerdict(out []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(out) {
		// With -json, a mark comes before what is not a test's.
		switch strings.TrimPrefix(string(line), "\x16") {
		case "PASS\n", "FAIL\n":
		default:
			kept = append(kept, line...)
		}
	}
	return kept
}
