//go:build !race

package message

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestTinyItemsCostLittle reads a list of items of some fifteen bytes each. What
// is needed for that is no more than was said before, and the body takes little
// more than the list itself. (With the race detector, pools forget.)
func TestTinyItemsCostLittle(t *testing.T) {
	const items, slack = 200_000, 64 << 10
	list := tinyList(items)
	var page *Page
	var err error
	if got, most := allocated(func() { page, err = ParsePage(list, revision.Tools) }), TableSize(list)+slack; got > most {
		t.Errorf("parsing %d bytes takes %d, want at most %d", len(list), got, most)
	}
	if err != nil || page.Count != items {
		t.Fatalf("got %d items, error %v", page.Count, err)
	}
	var body *Body
	if got := allocated(func() { body = Single(revision.Tools, page) }); got > 4*items+slack {
		t.Errorf("a body of %d bytes takes %d more", len(list), got)
	}
	if most := int64(len(list) + 4*items + slack); body.Footprint() > most {
		t.Errorf("the body takes %d bytes, want at most %d", body.Footprint(), most)
	}
	if names := body.Names(); names[0] != "0" || names[items-1] != strconv.FormatInt(items-1, 36) {
		t.Errorf("the names are %q to %q", names[0], names[items-1])
	}
}
