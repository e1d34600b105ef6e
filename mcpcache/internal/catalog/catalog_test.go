package catalog

import (
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache/cachetest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A catalogue of one costs nothing: it hands out what the backend has pinned.
func TestCatalogOfOne(t *testing.T) {
	one, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	c := Of(one)
	if got := c.List(revision.V20260728, revision.Tools); got != nil {
		t.Errorf("there is a list before the backend has one: %v", got.Body.Names())
	}
	e := cachetest.Tools(t, 3)
	one.Pin(e)
	if c.List(revision.V20260728, revision.Tools) != e || c.VisibleTo(t.Context(), e, nil, time.Now()) != e {
		t.Error("what is handed out is not the pinned entry itself")
	}
	if c.List(revision.V20251125, revision.Tools) != nil || c.List(revision.V20260728, revision.Prompts) != nil {
		t.Error("a list is handed out at another revision, or for another kind")
	}
}
