package seal

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

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
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

// newTestSealer makes the sealers of a source.
func newTestSealer(ring secret.Ring) *Sealer { return New(ring, "test") }

// opens reports whether a source opens the texts of the secret of that number.
func opens(s *Source[*Sealer], n byte) bool { return s.Sealer().Made(sealer(n).Seal(nil, nil)) }

// TestSecretFile replaces the secret in a file: what the one before has sealed is opened as
// long as it stands there, too.
func TestSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	writeSecrets(t, path, 1)
	c, err := NewSource("texts", path, newTestSealer, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	want := func(first, second bool) {
		t.Helper()
		if _, err := c.file.Reload(); err != nil {
			t.Fatal(err)
		}
		if opens(c, 1) != first || opens(c, 2) != second {
			t.Errorf("the first secret's are opened: %v, the second's: %v; want %v and %v", opens(c, 1), opens(c, 2), first, second)
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

// newStored returns a source of the secrets in a storage.
func newStored(t *testing.T, logger *zap.Logger) *Source[*Sealer] {
	t.Helper()
	s, err := NewSource("texts", "", newTestSealer, logger)
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
		one.Use(secret.Secret{1})
		other.Use(secret.Secret{2})
		one.Start(ctx, &moodyStorage{FileStorage: files, moods: []func(context.Context) error{
			func(context.Context) error { return errors.New("no storage") },
			func(context.Context) error { panic("no storage") },
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}})
		other.Start(ctx, files)
		<-one.Tried() // pages wait for no more than that
		synctest.Wait()
		select {
		case <-one.Settled():
			t.Error("there are secrets although the storage has failed")
		default:
		}
		early := one.Sealer().Seal(nil, nil)
		if other.Sealer().Made(early) {
			t.Error("what is sealed without storage is opened by others")
		}
		time.Sleep(2 * tryFor)
		late := one.Sealer().Seal(nil, nil)
		if !one.Sealer().Made(early) || !one.Sealer().Made(late) || !other.Sealer().Made(late) {
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
		s.Use(secret.Secret{1})
		s.Start(ctx, &moodyStorage{moods: []func(context.Context) error{
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}})
		<-s.Tried()
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
		c.Use(secret.Secret{1})
		c.Start(ctx, &moodyStorage{moods: []func(context.Context) error{
			func(context.Context) error { return errors.New("no storage") },
			func(context.Context) error { t.Error("it is tried again"); return errors.New("no storage") },
		}})
		synctest.Wait()
		cancel()
	})
}
