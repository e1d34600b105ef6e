//go:build unix && !linux

package process

import "syscall"

// endWithParent does nothing: programs see the end of their standard input.
func endWithParent(*syscall.SysProcAttr) {}
