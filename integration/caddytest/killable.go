package caddytest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Killable is a Caddy in a process of its own, with a storage that outlives it.
type Killable struct {
	t   *testing.T
	Dir string    // of its configuration, storage and log
	Log string    // the file
	Cmd *exec.Cmd // nil if it does not run
}

// NewKillable returns a Caddy that serves that site, and has not been started.
func NewKillable(t *testing.T, site string) *Killable {
	t.Helper()
	dir := t.TempDir()
	k := &Killable{t: t, Dir: dir, Log: filepath.Join(dir, "caddy.log")}
	config := fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n\tauto_https off\n\tstorage file_system %s\n"+
		"\tlog default {\n\t\toutput file %s\n\t}\n}\n%s\n", filepath.Join(dir, "storage"), k.Log, site)
	if err := os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Kill)
	return k
}

// Start starts the process. It may have been killed before.
func (k *Killable) Start() {
	k.t.Helper()
	k.Cmd = CaddyCommand(context.Background(), k.t, "run", "--config", filepath.Join(k.Dir, "Caddyfile"))
	if err := k.Cmd.Start(); err != nil {
		k.t.Fatalf("starting Caddy: %v", err)
	}
}

// Kill ends the process with SIGKILL. It may not be running.
func (k *Killable) Kill() {
	if k.Cmd == nil {
		return
	}
	_ = k.Cmd.Process.Kill()
	_ = k.Cmd.Wait() // it was killed
	k.Cmd = nil
}
