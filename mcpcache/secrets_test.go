package mcpcache

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/off"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// newUpstream returns the server of a handler before it is set up.
func newUpstream(h *Handler) *upstream { return &upstream{options: h.options(), logger: zap.NewNop()} }

// TestBadPaging has options that say nothing that could be: the errors say what could, and
// nothing of what is in the file.
func TestBadPaging(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	if err := os.WriteFile(path, []byte("correct horse battery staple"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, h := range map[string]*Handler{
		"page_size: -1 is not a whole number from 0, for one page, to 1000000":                                    {OneServerOptions: OneServerOptions{PageSize: -1}},
		"page_size: 1000001 is not a whole number from 0, for one page, to 1000000":                               {OneServerOptions: OneServerOptions{PageSize: MostPageSize + 1}},
		"secret_file: reading secret file: want 32 random bytes on a line, in base64 or hexadecimal digits":       {OneServerOptions: OneServerOptions{PageSize: 1}, EndpointOptions: EndpointOptions{SecretFile: path}},
		"secret_file: reading secret file: stat " + filepath.Join(dir, "missing") + ": no such file or directory": {OneServerOptions: OneServerOptions{PageSize: 1}, EndpointOptions: EndpointOptions{SecretFile: filepath.Join(dir, "missing")}},
		"secret_file: reading secret file: " + dir + " is not a regular file":                                     {OneServerOptions: OneServerOptions{PageSize: 1}, EndpointOptions: EndpointOptions{SecretFile: dir}},
	} {
		if _, err := newUpstream(h).newCursors(); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if c, err := newUpstream(&Handler{OneServerOptions: OneServerOptions{PageSize: MostPageSize}}).newCursors(); err != nil || c == nil {
		t.Errorf("the largest page: %v, %v", c, err)
	}
	if c, err := newUpstream(new(Handler)).newCursors(); err != nil || c != nil {
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
	own, file := &off.Off{}, EndpointOptions{SecretFile: path}
	sharing := func(h Handler, store stores.Store, inToolkit bool) (*seal.Source[secret.Ring], error) {
		u := newUpstream(&h)
		u.store, u.inToolkit = store, inToolkit
		return u.newSharing()
	}
	const want = "secret_file: it seals the cursors of pages, and lists in a store that instances share: set page_size or such a store, or leave it out"
	if _, err := sharing(Handler{EndpointOptions: file}, own, false); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for name, h := range map[string]Handler{"no file": {}, "pages": {EndpointOptions: file, OneServerOptions: OneServerOptions{PageSize: 1}}} {
		if s, err := sharing(h, own, false); s != nil || err != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if s, err := sharing(Handler{EndpointOptions: file}, own, true); s != nil || err != nil {
		t.Errorf("a server of a toolkit: %v, %v", s, err)
	}
	s, err := sharing(Handler{EndpointOptions: file}, &storetest.Shared{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if ring, err := s.Await(t.Context()); err != nil || len(ring) != 1 {
		t.Errorf("with a file there are %d secrets, %v", len(ring), err)
	}

	// Without a file they come from the storage, and nobody seals before.
	if s, err = sharing(Handler{}, &storetest.Shared{}, false); err != nil {
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
