//go:build !linux

package main

import "time"

// cpuTime is not known here: requests are counted by the time that goes by.
func cpuTime() time.Duration { return 0 }

// cores are of no use without pin.
func cores() (first, last int) { return 0, 0 }

// pin leaves it to the system which core a process has.
func pin(int, int) error { return nil }
