// Package secretfile reads small files that hold a secret: tokens, keys, certificates. Other
// programs may replace the files meanwhile. The package knows nothing of what is in them.
package secretfile

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// fileCheckEvery is the least time between two looks at a file's
	// metadata. A rotated secret is seen this much later at most.
	fileCheckEvery = time.Second

	// fileSettled is how much older than our reading a file's modification
	// time must be before it proves anything: within the granularity of a
	// file system's clock two writes share one time.
	fileSettled = 2 * time.Second

	// MaxSize bounds a token or key file, in bytes. HTTP servers accept
	// no header near this size, and no key comes close to it.
	MaxSize = 64 << 10
)

// File is a small file that other programs replace while we run: a
// projected token, a rotated key. Its content is parsed when it changes; while
// it cannot be read or parsed, the last good value stays in use.
//
// Nothing runs in the background: the file is looked at when its value is
// asked for, at most once a second.
type File[T any] struct {
	Path  string
	What  string // names the file in errors and logs, for instance "token file"
	Parse func([]byte) (T, error)
	Log   *zap.Logger

	mu      sync.Mutex
	checked time.Time   // of the last look at the file
	read    time.Time   // of the last reading, the zero time: never
	info    os.FileInfo // as it was before the last reading
	content []byte      // last good content
	value   T           // content, parsed
	changes uint64      // how often value was set
	err     error       // of the last look
}

// Get returns the value of the file's content, of its last good content if it
// has become unreadable, and an error only if there has never been one.
func (f *File[T]) Get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.checked.IsZero() || time.Since(f.checked) >= fileCheckEvery {
		f.look(false)
	}
	return f.current()
}

// Reload is Get without the wait: it reads the file now.
func (f *File[T]) Reload() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(true)
	return f.current()
}

// Version is a number that is another one after the content has changed.
func (f *File[T]) Version() uint64 {
	_, _ = f.Get()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

func (f *File[T]) current() (T, error) {
	if f.changes == 0 {
		return f.value, fmt.Errorf("reading %s: %w", f.What, f.err)
	}
	return f.value, nil
}

// look reads the file if it may have changed, or in any case if forced, and
// notes what came of it. The operator is told of each change of state once.
func (f *File[T]) look(force bool) {
	f.checked = time.Now()
	hadGood := f.changes > 0
	err := f.update(force)
	if hadGood {
		switch {
		case err != nil && f.err == nil:
			f.Log.Warn("keeping the last good content of an unreadable file",
				zap.String("what", f.What), zap.String("path", f.Path), zap.Error(err))
		case err == nil && f.err != nil:
			f.Log.Info("file is readable again",
				zap.String("what", f.What), zap.String("path", f.Path))
		}
	}
	f.err = err
}

func (f *File[T]) update(force bool) error {
	info, err := os.Stat(f.Path)
	if err != nil {
		return err
	}
	if !force && f.err == nil && f.unchanged(info) {
		return nil
	}
	f.read, f.info = time.Now(), info
	content, err := readSmallFile(f.Path, info)
	if err != nil {
		return err
	}
	if f.changes > 0 && bytes.Equal(content, f.content) {
		return nil
	}
	value, err := f.Parse(content)
	if err != nil {
		return err
	}
	f.value, f.content = value, content
	f.changes++
	return nil
}

// unchanged compares metadata. A swapped symbolic link shows as another file.
func (f *File[T]) unchanged(info os.FileInfo) bool {
	return f.info != nil &&
		os.SameFile(info, f.info) &&
		info.Size() == f.info.Size() &&
		info.ModTime().Equal(f.info.ModTime()) &&
		f.read.Sub(info.ModTime()) >= fileSettled
}

// readSmallFile reads a regular file of at most MaxSize bytes. Opening
// something else may block, as with a pipe, or do something, as with a device:
// hence the look at its mode first. It may be swapped just then, so that opening
// does not wait either, and what was opened is looked at once more.
func readSmallFile(path string, info os.FileInfo) ([]byte, error) {
	if err := regular(path, info); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|openNow, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(content) > MaxSize {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, MaxSize)
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return content, nil
}

func regular(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

// LoadKeyPair reads a certificate with its key, each of at most MaxSize
// bytes.
func LoadKeyPair(certFile, keyFile string) (*tls.Certificate, error) {
	var contents [2][]byte
	for i, path := range []string{certFile, keyFile} {
		info, err := os.Stat(path)
		if err == nil {
			contents[i], err = readSmallFile(path, info)
		}
		if err != nil {
			return nil, err
		}
	}
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, err
	}
	return &pair, nil
}
