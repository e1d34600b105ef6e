//go:build unix

package process

import (
	"fmt"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// attributes has a program lead a process group of its own, and run as that user.
func attributes(name string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	endWithParent(attr)
	if name == "" {
		return attr, nil
	}
	found, err := LookUser(name)
	if err != nil {
		return nil, err
	}
	credential := new(syscall.Credential)
	if credential.Uid, err = number(found.Uid); err != nil {
		return nil, err
	}
	if credential.Gid, err = number(found.Gid); err != nil {
		return nil, err
	}
	groups, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("finding the groups of user %s: %w", name, err)
	}
	for _, group := range groups {
		gid, err := number(group)
		if err != nil {
			return nil, err
		}
		credential.Groups = append(credential.Groups, gid)
	}
	attr.Credential = credential
	return attr, nil
}

// LookUser returns the user of that name, or else that number.
func LookUser(name string) (*user.User, error) {
	found, err := user.Lookup(name)
	if err != nil {
		if found, err = user.LookupId(name); err != nil {
			return nil, fmt.Errorf("there is no user %s", name)
		}
	}
	return found, nil
}

func number(id string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("reading the number of a user or group: %w", err)
	}
	return uint32(n), nil
}

// kill sends a signal to all processes of a program's group, also after the program has ended.
func kill(cmd *exec.Cmd, signal syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, signal) }
