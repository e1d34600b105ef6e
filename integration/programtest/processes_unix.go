//go:build unix

package programtest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Started returns the numbers of the processes that have made a file in a directory, see the trait
// pids.
func Started(t testing.TB, dir string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Running returns those of [Started] that have not ended.
func Running(t testing.TB, dir string) (pids []int) {
	t.Helper()
	for _, pid := range Started(t, dir) {
		if runs(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs reports whether there is a process of that number that has not ended.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
