package secretfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// newWatched returns a watcher of a file's upper-cased content, and its log.
func newWatched(path string) (*File[string], *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	return &File[string]{
		Path: path,
		What: "test file",
		Log:  zap.New(core),
		Parse: func(b []byte) (string, error) {
			if bytes.Contains(b, []byte("bad")) {
				return "", errors.New("bad content")
			}
			return strings.ToUpper(string(b)), nil
		},
	}, logs
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// elapse puts the last look into the past, so that the next Get looks again.
func (f *File[T]) elapse() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked = f.checked.Add(-fileCheckEvery)
}

func wantValue(t *testing.T, f *File[string], want string) {
	t.Helper()
	got, err := f.Get()
	if err != nil || got != want {
		t.Fatalf("Get() = %q, %v; want %q", got, err, want)
	}
}

func TestFileFollowsItsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	f, logs := newWatched(path)

	if _, err := f.Get(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "reading test file") {
		t.Fatalf("missing file: %v", err)
	}
	writeFile(t, path, "one")
	if _, err := f.Get(); err == nil {
		t.Fatal("the file was looked at twice within a second")
	}
	f.elapse()
	wantValue(t, f, "ONE")

	writeFile(t, path, "two") // same size, same inode, perhaps the same time
	wantValue(t, f, "ONE")
	f.elapse()
	wantValue(t, f, "TWO")

	writeFile(t, path, "three")
	if got, err := f.Reload(); err != nil || got != "THREE" {
		t.Fatalf("reload() = %q, %v", got, err)
	}
	if logs.Len() != 0 {
		t.Errorf("ordinary changes were logged: %v", logs.All())
	}
}

func TestFileKeepsTheLastGoodValue(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"removed":   func(t *testing.T, path string) { os.Remove(path) },
		"empty":     func(t *testing.T, path string) { writeFile(t, path, " \n") },
		"malformed": func(t *testing.T, path string) { writeFile(t, path, "bad") },
		"too large": func(t *testing.T, path string) { writeFile(t, path, strings.Repeat("x", MaxSize+1)) },
		"directory": func(t *testing.T, path string) {
			os.Remove(path)
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			writeFile(t, path, "good")
			f, logs := newWatched(path)
			wantValue(t, f, "GOOD")
			spoil(t, path)
			for range 3 {
				f.elapse()
				wantValue(t, f, "GOOD")
			}
			if n := logs.FilterLevelExact(zap.WarnLevel).Len(); n != 1 {
				t.Errorf("%d warnings, want 1 for the change of state", n)
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, "better")
			f.elapse()
			wantValue(t, f, "BETTER")
			if n := logs.FilterLevelExact(zap.InfoLevel).Len(); n != 1 {
				t.Errorf("%d notes of the recovery, want 1", n)
			}
		})
	}
}

func TestFileSizeLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	f, _ := newWatched(path)
	writeFile(t, path, strings.Repeat("x", MaxSize+1))
	if _, err := f.Reload(); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Fatalf("N+1 bytes: %v", err)
	}
	writeFile(t, path, strings.Repeat("x", MaxSize))
	if _, err := f.Reload(); err != nil {
		t.Fatalf("N bytes: %v", err)
	}
}

// Kubernetes swaps the directory behind a symbolic link; old and new file may
// agree in size and time.
func TestFileSymlinkSwap(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, content := range map[string]string{"v1": "one", "v2": "two"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name, "token")
		writeFile(t, path, content)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "..data")
	if err := os.Symlink("v1", data); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	f, _ := newWatched(filepath.Join(data, "token"))
	wantValue(t, f, "ONE")

	next := filepath.Join(dir, "..next")
	if err := os.Symlink("v2", next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, data); err != nil {
		t.Fatal(err)
	}
	f.elapse()
	wantValue(t, f, "TWO")
}

// A file that has not changed is not read again once its time is settled.
func TestFileReadsOnlyWhatChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	writeFile(t, path, "one")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	f, _ := newWatched(path)
	wantValue(t, f, "ONE")
	read := f.read
	f.elapse()
	wantValue(t, f, "ONE")
	if f.read != read {
		t.Error("an unchanged file was read again")
	}
}
