package process

import (
	"errors"
	"os/exec"
	"os/user"
	"syscall"
)

// attributes returns none: a program is ended by itself here, without what it has started.
func attributes(name string) (*syscall.SysProcAttr, error) {
	if name != "" {
		return nil, errors.New("programs cannot be run as another user on Windows")
	}
	return nil, nil
}

// LookUser returns the user of that name.
func LookUser(name string) (*user.User, error) { return user.Lookup(name) }

// kill ends a program. There is no way to ask it to.
func kill(cmd *exec.Cmd, _ syscall.Signal) { _ = cmd.Process.Kill() }
