//go:build unix

package programtest

import (
	"fmt"
	"os"
	"syscall"
)

// lock has the program end if another one has that file.
func (p *program) lock(file string) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	must(err)
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		fmt.Fprintln(os.Stderr, "another one runs")
		exit(8)
	}
	p.locked = f
}
