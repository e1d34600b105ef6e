package mcpcache

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cursor"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/off"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// writeSecrets writes a file with secrets that are the same each time.
func writeSecrets(t *testing.T, path string, numbers ...byte) {
	t.Helper()
	var lines strings.Builder
	for _, n := range numbers {
		one := secret.Secret{n}
		fmt.Fprintln(&lines, base64.StdEncoding.EncodeToString(one[:]))
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// opensCursors reports whether cursors of the secret of that number are opened.
func opensCursors(c *sealing[*cursor.Sealer], n byte) bool {
	return c.sealer().Made(cursor.NewSealer(secret.Ring{{n}}).Seal(cursor.Position{}, nil))
}

// TestSecretFile replaces the secret in a file: what the one before has sealed is opened as
// long as it stands there, too.
func TestSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	writeSecrets(t, path, 1)
	h := &Handler{PageSize: 2, SecretFile: path, logger: zap.NewNop()}
	c, err := h.newCursors()
	if err != nil {
		t.Fatal(err)
	}
	want := func(first, second bool) {
		t.Helper()
		if _, err := c.file.Reload(); err != nil {
			t.Fatal(err)
		}
		if opensCursors(c, 1) != first || opensCursors(c, 2) != second {
			t.Errorf("the first secret's are opened: %v, the second's: %v; want %v and %v", opensCursors(c, 1), opensCursors(c, 2), first, second)
		}
	}
	want(true, false)
	writeSecrets(t, path, 2, 1)
	want(true, true)
	writeSecrets(t, path, 2)
	want(false, true)
	if err := os.WriteFile(path, []byte("half a sec"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(false, true)
}

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

// newStored returns what seals cursors with secrets from a storage.
func newStored(t *testing.T, logger *zap.Logger) *sealing[*cursor.Sealer] {
	t.Helper()
	s, err := newSealing("cursors", "", cursor.NewSealer, logger)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// moodyStorage is a storage that fails, hangs or panics first.
type moodyStorage struct {
	*certmagic.FileStorage

	moods []func(ctx context.Context) error // of the first attempts
}

func (s *moodyStorage) Load(ctx context.Context, key string) ([]byte, error) {
	if len(s.moods) > 0 {
		mood := s.moods[0]
		s.moods = s.moods[1:]
		return nil, mood(ctx)
	}
	return s.FileStorage.Load(ctx, key)
}

// TestStoredSecrets has two handlers with the same storage, which does not work at first:
// meanwhile each opens what it has sealed itself, and also afterwards.
func TestStoredSecrets(t *testing.T) {
	files := &certmagic.FileStorage{Path: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		core, log := observer.New(zapcore.InfoLevel)
		one, other := newStored(t, zap.New(core)), newStored(t, zap.NewNop())
		one.use(secret.Secret{1})
		other.use(secret.Secret{2})
		one.start(ctx, &moodyStorage{FileStorage: files, moods: []func(context.Context) error{
			func(context.Context) error { return errors.New("no storage") },
			func(context.Context) error { panic("no storage") },
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}})
		other.start(ctx, files)
		<-one.tried // pages wait for no more than that
		synctest.Wait()
		select {
		case <-one.settled:
			t.Error("there are secrets although the storage has failed")
		default:
		}
		early := one.sealer().Seal(cursor.Position{}, nil)
		if other.sealer().Made(early) {
			t.Error("what is sealed without storage is opened by others")
		}
		time.Sleep(2 * tryFor)
		late := one.sealer().Seal(cursor.Position{}, nil)
		if !one.sealer().Made(early) || !one.sealer().Made(late) || !other.sealer().Made(late) {
			t.Error("what is sealed with the storage's secret is not opened by all, or what was sealed before not by its own")
		}
		if lines := log.TakeAll(); len(lines) != 2 || lines[0].Level != zapcore.WarnLevel || lines[1].Level != zapcore.InfoLevel {
			t.Errorf("the log has %v", lines)
		}
	})
}

// TestNobodyWaitsForAStorageThatHangs has a storage that takes longer than requests wait.
func TestNobodyWaitsForAStorageThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, began := newStored(t, zap.NewNop()), time.Now()
		s.use(secret.Secret{1})
		s.start(ctx, &moodyStorage{moods: []func(context.Context) error{
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}})
		<-s.tried
		if took := time.Since(began); took != requestsWait {
			t.Errorf("requests wait for %v, want %v", took, requestsWait)
		}
	})
}

// TestSecretsEndWithTheConfiguration ends with a configuration that is not in use any more,
// whatever its storage does.
func TestSecretsEndWithTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newStored(t, zap.NewNop())
		c.use(secret.Secret{1})
		c.start(ctx, &moodyStorage{moods: []func(context.Context) error{
			func(context.Context) error { return errors.New("no storage") },
			func(context.Context) error { t.Error("it is tried again"); return errors.New("no storage") },
		}})
		synctest.Wait()
		cancel()
	})
}

// A file of secrets that seal nothing is a mistake. In a store that instances share they seal
// lists.
func TestSecretsOfSharedLists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	writeSecrets(t, path, 1)
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
	if ring, err := s.await(t.Context()); err != nil || len(ring) != 1 {
		t.Errorf("with a file there are %d secrets, %v", len(ring), err)
	}

	// Without a file they come from the storage, and nobody seals before.
	h.SecretFile = ""
	if s, err = h.newSharing(false); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.await(ended); err == nil {
		t.Error("there are secrets before they are loaded")
	}
	s.start(t.Context(), &certmagic.FileStorage{Path: t.TempDir()})
	if ring, err := s.await(t.Context()); err != nil || len(ring) != 1 {
		t.Errorf("with a storage there are %d secrets, %v", len(ring), err)
	}
}
