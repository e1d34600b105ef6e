//go:build unix

package secretfile

import "syscall"

// openNow has a file opened that does not wait for anybody, as for a pipe's
// other end, and that becomes nobody's terminal.
const openNow = syscall.O_NONBLOCK | syscall.O_NOCTTY
