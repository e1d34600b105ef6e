package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit in which Linux tells programs about time on a core.
const tick = 10 * time.Millisecond

// cpuTime returns how long a process has had a core, in user and system mode;
// an error where the system does not tell as Linux does.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading processor time: %w", err)
	}
	return parseStat(stat)
}

// parseStat reads utime and stime, fields 14 and 15 (proc(5)).
func parseStat(stat []byte) (time.Duration, error) {
	// The second field is a name in brackets that may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("reading processor time: %.80q is too short", stat)
	}
	var total time.Duration
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading processor time: %w", err)
		}
		total += time.Duration(ticks) * tick
	}
	return total, nil
}

// cores says which core does what. One that is -1 is any.
type cores struct{ server, load, upstream int }

// String implements [fmt.Stringer].
func (c cores) String() string {
	if c.server < 0 {
		return "not chosen"
	}
	return fmt.Sprintf("%d (server), %d (load), %d (upstream)", c.server, c.load, c.upstream)
}

// chooseCores gives what is measured a core of its own. With two cores, the
// upstream shares that of the load.
func chooseCores(allowed []int) cores {
	switch n := len(allowed); {
	case n < 2:
		return cores{-1, -1, -1}
	case n == 2:
		return cores{server: allowed[1], load: allowed[0], upstream: allowed[0]}
	default:
		return cores{server: allowed[n-1], load: allowed[n-2], upstream: allowed[n-3]}
	}
}

// allowedCores returns the cores that this process may use; none where the
// system does not tell as Linux does.
func allowedCores() []int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	return parseCores(value(string(status), "Cpus_allowed_list"))
}

// value returns the value of a line "name: value".
func value(text, name string) string {
	for line := range strings.Lines(text) {
		if key, rest, found := strings.Cut(line, ":"); found && key == name {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// parseCores reads a list such as 0-2,5.
func parseCores(list string) []int {
	var cores []int
	for part := range strings.SplitSeq(list, ",") {
		low, high, found := strings.Cut(part, "-")
		if !found {
			high = low
		}
		from, err1 := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil {
			return nil
		}
		for core := from; core <= to; core++ {
			cores = append(cores, core)
		}
	}
	return cores
}

// residentMemory returns how many bytes of a process are in memory.
func residentMemory(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading memory: %w", err)
	}
	kilobytes, err := strconv.ParseInt(strings.TrimSuffix(value(string(status), "VmRSS"), " kB"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading memory: %w", err)
	}
	return kilobytes << 10, nil
}
