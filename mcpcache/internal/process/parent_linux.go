package process

import "syscall"

// endWithParent has the kernel end a program when the thread ends that has started it.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
