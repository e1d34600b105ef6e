package caddystore_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/caddystore"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

func TestCaddy(t *testing.T) {
	storetest.Run(t, func(t *testing.T) stores.Store {
		return caddystore.New(&certmagic.FileStorage{Path: t.TempDir()})
	})
}

// TestCaddyKeepsToItsPart looks at what is in the storage: nothing of ours is
// outside our folder, and nobody else on the machine can read it.
func TestCaddyKeepsToItsPart(t *testing.T) {
	root := t.TempDir()
	s := caddystore.New(&certmagic.FileStorage{Path: root})
	if err := s.Save(t.Context(), "upstream/2026-07-28.tools.snapshot", []byte("value")); err != nil {
		t.Fatal(err)
	}
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files = append(files, strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(root)))
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil || len(files) != 1 || files[0] != "/mcp_cache/upstream/2026-07-28.tools.snapshot" {
		t.Errorf("the storage holds %q, %v", files, err)
	}
}

// broken is a storage that does nothing but fail.
type broken struct {
	certmagic.Storage

	err error
}

func (b broken) Load(context.Context, string) ([]byte, error) { return nil, b.err }
func (b broken) Store(context.Context, string, []byte) error  { return b.err }
func (b broken) Delete(context.Context, string) error         { return b.err }

func TestCaddyOnABrokenStorage(t *testing.T) {
	want := errors.New("disk on fire")
	s := caddystore.New(broken{err: want})
	_, loading := s.Load(t.Context(), "key")
	for what, err := range map[string]error{
		"loading": loading, "saving": s.Save(t.Context(), "key", nil), "deleting": s.Delete(t.Context(), "key"),
	} {
		if !errors.Is(err, want) || errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), what+" ") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	// Some storages say that what they shall delete is not there.
	if err := caddystore.New(broken{err: fs.ErrNotExist}).Delete(t.Context(), "key"); err != nil {
		t.Errorf("deleting what is not there: %v", err)
	}
}
