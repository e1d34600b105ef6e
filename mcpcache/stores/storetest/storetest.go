// Package storetest checks that a store keeps what it is given, as the
// interface says.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Run runs the tests that every store must pass which keeps anything. Each test
// has a new store, without values.
func Run(t *testing.T, newStore func(*testing.T) stores.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, stores.Store){
		"nothing at first":  testNothing,
		"keeps values":      testKeeps,
		"replaces":          testReplaces,
		"deletes":           testDeletes,
		"tells keys apart":  testKeys,
		"copies":            testCopies,
		"is never torn":     testNeverTorn,
		"ends with context": testContext,
	} {
		t.Run(name, func(t *testing.T) { test(t, newStore(t)) })
	}
}

// key is one of the kind that stores are given.
const key = "0123456789abcdef/2026-07-28.tools.snapshot"

func testNothing(t *testing.T, s stores.Store) { wantNone(t, s, key) }

func testKeeps(t *testing.T, s stores.Store) {
	for name, value := range map[string][]byte{
		"text": []byte("line\nline\r\n"), "binary": {0, 1, 0xff, 0xfe, 0}, "large": bytes.Repeat([]byte("0123456789abcdef"), 1<<16),
		"empty": {},
	} {
		save(t, s, name, value)
		wantValue(t, s, name, value)
		wantValue(t, s, name, value) // reading takes nothing away
	}
}

func testReplaces(t *testing.T, s stores.Store) {
	for _, value := range []string{"a longer value", "short", "", "a much longer value than before"} {
		save(t, s, key, []byte(value))
		wantValue(t, s, key, []byte(value))
	}
}

func testDeletes(t *testing.T, s stores.Store) {
	const other = "0123456789abcdef/2026-07-28.prompts.snapshot"
	remove(t, s, key) // there is none
	save(t, s, key, []byte("value"))
	save(t, s, other, []byte("other"))
	remove(t, s, key)
	wantNone(t, s, key)
	remove(t, s, key)
	wantValue(t, s, other, []byte("other"))
	save(t, s, key, []byte("again"))
	wantValue(t, s, key, []byte("again"))
}

func testKeys(t *testing.T, s stores.Store) {
	keys := []string{"a.snapshot", "a_snapshot", "a-snapshot", "A/b.snapshot", "a/b.snapshot", "a/b/c.snapshot", "b/a.snapshot"}
	for i, key := range keys {
		wantNone(t, s, key)
		save(t, s, key, fmt.Append(nil, i))
	}
	for i, key := range keys {
		wantValue(t, s, key, fmt.Append(nil, i))
	}
}

// testCopies changes what it has given and what it was given.
func testCopies(t *testing.T, s stores.Store) {
	value := []byte("value")
	if err := s.Save(t.Context(), key, value); err != nil {
		t.Fatalf("saving: %v", err)
	}
	value[0] = 'X'
	wantValue(t, s, key, []byte("value"))
	load(t, s, key)[0] = 'Y'
	wantValue(t, s, key, []byte("value"))
}

// testNeverTorn writes and reads one key from everywhere.
func testNeverTorn(t *testing.T, s stores.Store) {
	const writers, rounds = 4, 25
	value := func(writer int) []byte { return []byte(strings.Repeat(string(rune('a'+writer)), 10_000*(writer+1))) }
	save(t, s, key, value(0))
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for range rounds {
				if err := s.Save(context.Background(), key, value(writer)); err != nil {
					t.Errorf("saving: %v", err)
				}
			}
		})
		all.Go(func() {
			for range rounds {
				got, err := s.Load(context.Background(), key)
				if err != nil {
					t.Errorf("loading: %v", err)
					continue
				}
				if len(got) == 0 || !bytes.Equal(got, value(int(got[0]-'a'))) {
					t.Errorf("loaded %d bytes that nobody saved", len(got))
				}
			}
		})
	}
	all.Wait()
}

// testContext asks when there is no time left: what is answered does not
// matter, but that it is.
func testContext(t *testing.T, s stores.Store) {
	save(t, s, key, []byte("value"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if value, err := s.Load(ctx, key); err == nil && string(value) != "value" {
		t.Errorf("loaded %q", value)
	}
	saved := s.Save(ctx, key, []byte("other")) == nil
	if got := string(load(t, s, key)); got != "other" && (saved || got != "value") {
		t.Errorf("saved (%v), then loaded %q", saved, got)
	}
	if s.Delete(ctx, key) == nil {
		wantNone(t, s, key)
	}
}

func save(t *testing.T, s stores.Store, key string, value []byte) {
	t.Helper()
	if err := s.Save(t.Context(), key, value); err != nil {
		t.Fatalf("saving %s: %v", key, err)
	}
}

func load(t *testing.T, s stores.Store, key string) []byte {
	t.Helper()
	value, err := s.Load(t.Context(), key)
	if err != nil {
		t.Fatalf("loading %s: %v", key, err)
	}
	return value
}

func remove(t *testing.T, s stores.Store, key string) {
	t.Helper()
	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatalf("deleting %s: %v", key, err)
	}
}

func wantValue(t *testing.T, s stores.Store, key string, want []byte) {
	t.Helper()
	if got := load(t, s, key); !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, want the %d that were saved", key, len(got), len(want))
	}
}

func wantNone(t *testing.T, s stores.Store, key string) {
	t.Helper()
	if value, err := s.Load(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("loading %s, which is not there: got %q, %v; want fs.ErrNotExist", key, value, err)
	}
}
