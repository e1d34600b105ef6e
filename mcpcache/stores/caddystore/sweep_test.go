package caddystore_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/caddystore"
)

const week = 7 * 24 * time.Hour

// aged puts files into a storage that were saved so long ago.
func aged(t *testing.T, root string, files map[string]time.Duration) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
		} else {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("value"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, age := range files { // what is in a folder is there by now
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(root, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// left returns what is in a storage, but for when it was swept.
func left(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(root)+"/")
		if err != nil || path == root || name == "mcp_cache" || name == "mcp_cache/swept" {
			return err
		}
		if d.IsDir() {
			name += "/"
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestCaddySweeps has a storage of several instances swept: of ours, what is
// old goes; what is young stays, and all that is not ours.
func TestCaddySweeps(t *testing.T) {
	root := t.TempDir()
	old, used, empty, young := digest("a"), digest("b"), digest("c"), digest("d")
	aged(t, root, map[string]time.Duration{
		"mcp_cache/" + old + "/2026-07-28.tools.snapshot":    week + time.Minute,
		"mcp_cache/" + old + "/1234567890":                   week + time.Minute, // a write that was cut off
		"mcp_cache/" + used + "/2026-07-28.tools.snapshot":   week - time.Minute,
		"mcp_cache/" + used + "/2025-11-25.tools.snapshot":   2 * week,
		"mcp_cache/" + empty + "/":                           2 * week,
		"mcp_cache/" + young + "/":                           time.Minute,
		"mcp_cache/secret":                                   2 * week,
		"mcp_cache/elsewhere/2026-07-28.tools.snapshot":      2 * week,
		"mcp_cache/" + used + "/deeper/tools.snapshot":       2 * week,
		"certificates/" + old + "/2026-07-28.tools.snapshot": 2 * week,
	})
	s := caddystore.New(&certmagic.FileStorage{Path: root})
	if err := s.Sweep(t.Context(), time.Now().Add(-week)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"certificates/", "certificates/" + old + "/", "certificates/" + old + "/2026-07-28.tools.snapshot",
		"mcp_cache/" + old + "/", // young, as its last file has just gone
		"mcp_cache/" + used + "/", "mcp_cache/" + used + "/2026-07-28.tools.snapshot",
		"mcp_cache/" + used + "/deeper/", "mcp_cache/" + used + "/deeper/tools.snapshot",
		"mcp_cache/" + young + "/", "mcp_cache/elsewhere/", "mcp_cache/elsewhere/2026-07-28.tools.snapshot", "mcp_cache/secret",
	}
	slices.Sort(want)
	if got := left(t, root); !slices.Equal(got, want) {
		t.Errorf("left are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func digest(letter string) string { return strings.Repeat(letter, 64) }

// TestCaddySweepsOnceADay has many upstreams ask for it.
func TestCaddySweepsOnceADay(t *testing.T) {
	root := t.TempDir()
	file := "mcp_cache/" + digest("a") + "/2026-07-28.tools.snapshot"
	s := caddystore.New(&certmagic.FileStorage{Path: root})
	sweep := func() bool {
		t.Helper()
		aged(t, root, map[string]time.Duration{file: 2 * week})
		if err := s.Sweep(t.Context(), time.Now().Add(-week)); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(filepath.Join(root, file))
		return err != nil
	}
	if !sweep() {
		t.Error("the first time, nothing was swept")
	}
	if sweep() {
		t.Error("it was swept again at once")
	}
	swept := filepath.Join(root, "mcp_cache", "swept")
	for what, value := range map[string]string{
		"a day ago":       time.Now().Add(-24*time.Hour - time.Minute).UTC().Format(time.RFC3339),
		"nobody knows":    "once upon a time",
		"in the future":   time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		"not yet written": "",
	} {
		if err := os.WriteFile(swept, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		if !sweep() {
			t.Errorf("%s: nothing was swept", what)
		}
	}
}

// ageless is a storage that does not tell when a value was stored.
type ageless struct{ certmagic.Storage }

func (a ageless) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	info, err := a.Storage.Stat(ctx, key)
	info.Modified = time.Time{}
	return info, err
}

func TestCaddySweepsNothingOfUnknownAge(t *testing.T) {
	root := t.TempDir()
	aged(t, root, map[string]time.Duration{"mcp_cache/" + digest("a") + "/2026-07-28.tools.snapshot": 2 * week})
	s := caddystore.New(ageless{&certmagic.FileStorage{Path: root}})
	if err := s.Sweep(t.Context(), time.Now().Add(-week)); err != nil {
		t.Fatal(err)
	}
	if got := left(t, root); len(got) != 2 {
		t.Errorf("left are %q", got)
	}
}

// TestCaddySweepEnds has no time to sweep.
func TestCaddySweepEnds(t *testing.T) {
	root := t.TempDir()
	aged(t, root, map[string]time.Duration{"mcp_cache/" + digest("a") + "/2026-07-28.tools.snapshot": 2 * week})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := caddystore.New(&certmagic.FileStorage{Path: root})
	if err := s.Sweep(ctx, time.Now().Add(-week)); err == nil {
		t.Error("it ended well")
	}
}
