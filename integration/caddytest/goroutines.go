package caddytest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// lasting are functions whose goroutines Caddy and its libraries start once and
// never end, each with the reason why that is no leak of ours.
var lasting = map[string]string{
	"caddy/v2.replaceLocalAdminServer":             "the admin endpoint itself, which every load replaces",
	"testing.(*T).Run(":                            "tests that wait for their subtests",
	"certmagic.(*Cache).maintainAssets(":           "certmagic's certificate cache outlives configurations",
	"certmagic.keepLockfileFresh(":                 "looks only every five seconds whether its lock is gone",
	"caddytls.(*TLS).keepStorageClean":             "ends with its ticker's next beat",
	"lumberjack.(*Logger).millRun(":                "log rotation, once a file",
	"timberjack.(*Logger)":                         "log rotation, once a file",
	"go.opencensus.io/stats/view.(*worker).start(": "a library's init function",
	"glog.(*fileSink).flushDaemon(":                "a library's init function",
}

// goroutines returns the stacks of all goroutines by their numbers.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	stacks := make(map[string]string)
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		number, _, _ := strings.Cut(stack, " [")
		stacks[number] = stack
	}
	return stacks
}

// added returns the stacks of the goroutines that are there now and were not
// before, but for the lasting ones.
func added(before map[string]string) []string {
	var stacks []string
next:
	for number, stack := range goroutines() {
		if _, old := before[number]; old {
			continue
		}
		for function := range lasting {
			if strings.Contains(stack, function) {
				continue next
			}
		}
		stacks = append(stacks, stack)
	}
	return stacks
}

// awaitGoroutines waits until no goroutine is left that was not there before,
// and returns those that stay.
func awaitGoroutines(before map[string]string) (left []string) {
	poll(func() bool {
		left = added(before)
		return len(left) == 0
	})
	return left
}

// poll waits until a condition holds that is dear to look at, and reports
// whether it came to that.
func poll(done func() bool) bool {
	return fixture.Poll(fixture.Deadline, 20*time.Millisecond, done)
}

// CheckGoroutines fails the test if it leaves goroutines. It has to be called
// before anything that the test cleans up.
func CheckGoroutines(t testing.TB) {
	t.Helper()
	before := goroutines()
	t.Cleanup(func() {
		if left := awaitGoroutines(before); len(left) > 0 {
			t.Errorf("%d goroutines are left, such as:\n\n%s", len(left), left[0])
		}
	})
}

// connections are where net/http starts the goroutines of connections, whose
// number follows the traffic.
var connections = []string{
	"net/http.(*Transport).dialConn", "net/http.(*Transport).startDialConn", "net/http.(*Server).Serve",
}

// Census counts goroutines by where they were started, but for those of
// connections and the lasting ones.
func Census() map[string]int {
	counts := make(map[string]int)
	for _, stack := range added(nil) {
		_, creator, ok := strings.Cut(stack, "created by ")
		if !ok {
			continue
		}
		creator, _, _ = strings.Cut(creator, " in goroutine")
		if !slices.Contains(connections, creator) {
			counts[creator]++
		}
	}
	return counts
}

// AwaitCensus waits until no place has started more goroutines that still run
// than it had before.
func AwaitCensus(t testing.TB, before map[string]int) {
	t.Helper()
	var more string
	done := func() bool {
		more = ""
		for creator, n := range Census() {
			if n > before[creator] {
				more += fmt.Sprintf("\n%d were %d: %s", n, before[creator], creator)
			}
		}
		return more == ""
	}
	if !poll(done) {
		t.Errorf("there are more goroutines than before:%s", more)
	}
}

// WantNothingLeft does something so many times, and fails if that leaves
// goroutines, or more than a kilobyte of memory for each and the slack in all.
func WantNothingLeft(t testing.TB, what string, times int, slack int64, do func(times int)) {
	t.Helper()
	resting, before := Census(), Heap()
	do(times)
	AwaitCensus(t, resting)
	if grown := Heap() - before; grown > int64(times)*1024+slack {
		t.Errorf("%d %s left %d bytes", times, what, grown)
	}
}

// Heap returns the bytes in use after a collection.
func Heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
