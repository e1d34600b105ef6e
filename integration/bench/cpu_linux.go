package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns how long this process has had a core, in user and system mode.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cores returns the first and the last core that this process may use.
func cores() (first, last int) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return 0, 0
	}
	first = -1
	for core, left := 0, allowed.Count(); left > 0; core++ {
		if allowed.IsSet(core) {
			if first < 0 {
				first = core
			}
			last = core
			left--
		}
	}
	return first, last
}

// pin keeps a process on one core, with the threads that it starts later.
func pin(pid, core int) error {
	var one unix.CPUSet
	one.Set(core)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return fmt.Errorf("finding threads: %w", err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err == nil {
			err = unix.SchedSetaffinity(id, &one)
		}
		if err != nil {
			return fmt.Errorf("keeping a thread on its core: %w", err)
		}
	}
	return nil
}
