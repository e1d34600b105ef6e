package mcpcache

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/off"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// TestBadPaging has options that say nothing that could be: the errors say what could, and
// nothing of what is in the file.
func TestBadPaging(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	if err := os.WriteFile(path, []byte("correct horse battery staple"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, h := range map[string]*Handler{
		"page_size: -1 is not a whole number from 0, for one page, to 1000000":                                    {PageSize: -1},
		"page_size: 1000001 is not a whole number from 0, for one page, to 1000000":                               {PageSize: MostPageSize + 1},
		"secret_file: reading secret file: want 32 random bytes on a line, in base64 or hexadecimal digits":       {PageSize: 1, SecretFile: path},
		"secret_file: reading secret file: stat " + filepath.Join(dir, "missing") + ": no such file or directory": {PageSize: 1, SecretFile: filepath.Join(dir, "missing")},
		"secret_file: reading secret file: " + dir + " is not a regular file":                                     {PageSize: 1, SecretFile: dir},
	} {
		h.logger = zap.NewNop()
		if _, err := h.newCursors(); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if c, err := (&Handler{PageSize: MostPageSize}).newCursors(); err != nil || c == nil {
		t.Errorf("the largest page: %v, %v", c, err)
	}
	if c, err := new(Handler).newCursors(); err != nil || c != nil {
		t.Errorf("without pages: %v, %v", c, err)
	}
}

// A file of secrets that seal nothing is a mistake. In a store that instances share they seal
// lists.
func TestSecretsOfSharedLists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(strings.Repeat("07", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	own := &off.Off{}
	const want = "secret_file: it seals the cursors of pages, and lists in a store that instances share: set page_size or such a store, or leave it out"
	if _, err := (&Handler{store: own, SecretFile: path}).newSharing(false); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for name, h := range map[string]*Handler{"no file": {store: own}, "pages": {store: own, SecretFile: path, PageSize: 1}} {
		if s, err := h.newSharing(false); s != nil || err != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if s, err := (&Handler{store: own, SecretFile: path}).newSharing(true); s != nil || err != nil {
		t.Errorf("a server of a toolkit: %v, %v", s, err)
	}
	h := &Handler{store: &storetest.Shared{}, SecretFile: path, logger: zap.NewNop()}
	s, err := h.newSharing(false)
	if err != nil {
		t.Fatal(err)
	}
	if ring, err := s.Await(t.Context()); err != nil || len(ring) != 1 {
		t.Errorf("with a file there are %d secrets, %v", len(ring), err)
	}

	// Without a file they come from the storage, and nobody seals before.
	h.SecretFile = ""
	if s, err = h.newSharing(false); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Await(ended); err == nil {
		t.Error("there are secrets before they are loaded")
	}
	s.Start(t.Context(), &certmagic.FileStorage{Path: t.TempDir()})
	if ring, err := s.Await(t.Context()); err != nil || len(ring) != 1 {
		t.Errorf("with a storage there are %d secrets, %v", len(ring), err)
	}
}
