package cache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A snapshot that changes now and then is compressed at once; one that changes
// all the time when it has stayed for a while, whoever asks for it before.
func TestRestlessSnapshotsAreCompressedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := compressing(t, 1<<20)
		defer c.Close()
		began := time.Now()
		var last *Entry
		change := func(n int) {
			last = c.list(toolsOf(Public), listOf(t, toolsFrom(n, 20)...), time.Since(began))
			c.Pin(last)
		}
		want := func(what string, bodies int) {
			t.Helper()
			synctest.Wait()
			if c.Encoded(last, encoded.Plain, time.Now()); c.compress(t) != bodies {
				t.Errorf("%s: not %d bodies were compressed", what, bodies)
			}
			if got := c.Encoded(last, encoded.Plain, time.Now()) != nil; got != (bodies == 1) {
				t.Errorf("%s: compressed forms are there: %v", what, got)
			}
		}
		change(0)
		want("the first", 1)
		time.Sleep(time.Hour)
		change(1)
		want("after an hour", 1)
		for n := range 50 {
			time.Sleep(encoded.RestTime / 20)
			change(2 + n)
			want("all the time", 0)
		}
		time.Sleep(encoded.RestTime - 1)
		synctest.Wait()
		if got := len(c.Wanted()); got != 0 {
			t.Errorf("%d bodies are wanted too early", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := len(c.Wanted()); got != 1 { // and nobody has asked
			t.Errorf("%d bodies are wanted after a while, want 1", got)
		}
		want("after a while", 1)

		// What has stayed meanwhile is left alone, also by another fetch of it.
		change(100)
		c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(100, 20)...), time.Since(began)+1))
		last = c.Pinned(revision.V20260728, revision.Tools)
		want("fetched again", 1)
		time.Sleep(2 * encoded.RestTime)
		synctest.Wait()
		if got := len(c.Wanted()); got != 0 {
			t.Errorf("%d bodies are wanted twice", got)
		}
	})
}

// Nothing is compressed for a cache that has been closed, or for a kind that is
// not offered any more.
func TestSettlingEnds(t *testing.T) {
	for name, end := range map[string]func(*Cache){
		"closed":   func(c *Cache) { c.Close() },
		"unpinned": func(c *Cache) { c.Unpin(revision.V20260728, revision.Tools) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := compressing(t, 1<<20)
				defer c.Close()
				for n := range 3 {
					c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(n, 20)...), time.Duration(n)))
				}
				c.compress(t)
				end(c)
				time.Sleep(2 * encoded.RestTime)
				synctest.Wait()
				if got := len(c.Wanted()); got != 0 {
					t.Errorf("%d bodies are wanted", got)
				}
			})
		})
	}
}
