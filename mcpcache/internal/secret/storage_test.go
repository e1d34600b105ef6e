package secret

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
)

// TestInstancesShareASecret has several instances of one storage start together, and again:
// they have the same secret, whoever comes first.
func TestInstancesShareASecret(t *testing.T) {
	const instances, rounds = 8, 10
	for range rounds {
		storage := &certmagic.FileStorage{Path: t.TempDir()}
		var rings [2 * instances]Ring
		synctest.Test(t, func(t *testing.T) {
			for start := range 2 {
				var all sync.WaitGroup
				for i := range instances {
					all.Go(func() {
						var err error
						if rings[start*instances+i], err = Stored(t.Context(), storage); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
			}
			time.Sleep(10 * time.Second) // the storage ends what keeps its locks fresh
		})
		for _, ring := range rings {
			if len(ring) != 1 || !slices.Equal(ring, rings[0]) {
				t.Fatal("two instances have different secrets")
			}
		}
		path := filepath.Join(storage.Path, filepath.FromSlash(storageKey))
		info, err := os.Stat(path)
		if err != nil || info.Size() != 45 || os.PathSeparator == '/' && info.Mode().Perm()&0o077 != 0 {
			t.Fatalf("what is stored is %v, error %v", info, err)
		}
	}
}

// TestDamagedSecrets does not replace what is stored and cannot be read: others may have
// read it.
func TestDamagedSecrets(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	if err := storage.Store(t.Context(), storageKey, []byte("half a sec")); err != nil {
		t.Fatal(err)
	}
	if ring, err := Stored(t.Context(), storage); !errors.Is(err, errDamaged) || ring != nil {
		t.Errorf("got %d secrets, error %v", len(ring), err)
	}
	if content, err := storage.Load(t.Context(), storageKey); err != nil || string(content) != "half a sec" {
		t.Errorf("what is stored is %q, error %v", content, err)
	}
}

// broken is a storage of which one method fails.
type broken struct {
	certmagic.FileStorage

	method string
}

var errBroken = errors.New("broken")

func (b *broken) fail(method string) error {
	if b.method == method {
		return errBroken
	}
	return nil
}

func (b *broken) Lock(ctx context.Context, name string) error {
	return errors.Join(b.fail("Lock"), b.FileStorage.Lock(ctx, name))
}

func (b *broken) Unlock(ctx context.Context, name string) error {
	return errors.Join(b.fail("Unlock"), b.FileStorage.Unlock(ctx, name))
}

func (b *broken) Load(ctx context.Context, key string) ([]byte, error) {
	if err := b.fail("Load"); err != nil {
		return nil, err
	}
	return b.FileStorage.Load(ctx, key)
}

func (b *broken) Store(ctx context.Context, key string, value []byte) error {
	if err := b.fail("Store"); err != nil {
		return err
	}
	return b.FileStorage.Store(ctx, key, value)
}

// TestBrokenStorages says what of a storage has failed.
func TestBrokenStorages(t *testing.T) {
	for method, says := range map[string]string{"Lock": "locking", "Unlock": "unlocking", "Load": "loading", "Store": "storing"} {
		storage := &broken{certmagic.FileStorage{Path: t.TempDir()}, method}
		if _, err := Stored(t.Context(), storage); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s fails: %v", method, err)
		}
	}
}
