//go:build unix

package secretfile

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// special are what can be put where a file was.
var special = map[string]func(t *testing.T, path string){
	"pipe": func(t *testing.T, path string) {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	},
	"socket": func(t *testing.T, path string) {
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
	},
	"device": func(t *testing.T, path string) {
		if err := os.Symlink("/dev/zero", path); err != nil {
			t.Fatal(err)
		}
	},
	"terminal": func(t *testing.T, path string) {
		if err := os.Symlink("/dev/ptmx", path); err != nil {
			t.Fatal(err)
		}
	},
	"folder": func(t *testing.T, path string) {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	},
	"link to a pipe": func(t *testing.T, path string) {
		if err := syscall.Mkfifo(path+".pipe", 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path+".pipe", path); err != nil {
			t.Fatal(err)
		}
	},
}

// soon fails the test if something takes long; what it does is not stopped.
func soon(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("blocked: " + what)
	}
}

// A file that is swapped for something else between the look at it and its
// opening blocks nothing and is not read.
func TestSwappedFileBlocksNothing(t *testing.T) {
	for name, put := range special {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t") // sockets have short paths
			writeFile(t, path, "token")
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			os.Remove(path)
			put(t, path)
			soon(t, "reading", func() {
				if content, err := readSmallFile(path, info); err == nil {
					t.Errorf("read %q", content)
				} else if name != "socket" && !strings.Contains(err.Error(), "not a regular file") {
					t.Error(err)
				}
			})
		})
	}
}

// So does one that is there all the time, for each kind of file.
func TestSpecialFilesBlockNothing(t *testing.T) {
	for name, put := range special {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t")
			writeFile(t, path, "good")
			f, _ := newWatched(path)
			wantValue(t, f, "GOOD")
			os.Remove(path)
			put(t, path)
			soon(t, "watching", func() {
				f.elapse()
				wantValue(t, f, "GOOD")
			})
			soon(t, "loading a certificate", func() {
				if _, err := LoadKeyPair(path, path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
					t.Errorf("a certificate of this kind: %v", err)
				}
			})
		})
	}
}
