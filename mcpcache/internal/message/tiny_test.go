package message

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// tinyList returns a result with n items that have nothing but names.
func tinyList(n int) []byte {
	list := []byte(`{"ttlMs":1,"tools":[`)
	for i := range n {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(strconv.AppendInt(append(list, `{"name":"`...), int64(i), 36), `"}`...)
	}
	return append(list, "]}"...)
}

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
// more than the list itself.
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

// A body does not keep what it leaves out.
func TestBodyKeepsNoWaste(t *testing.T) {
	list := []byte(`{"tools":[{"name":"a"}` + string(bytes.Repeat([]byte(" "), 1<<16)) + `]}`)
	page, err := ParsePage(list, revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	if body := Single(revision.Tools, page); string(body.Bytes) != `"tools":[{"name":"a"}]}}` || body.Footprint() > 100 {
		t.Errorf("%s takes %d bytes", body.Bytes, body.Footprint())
	}
}

func bodyOf(t testing.TB, items string) *Body {
	t.Helper()
	page, err := ParsePage([]byte(`{"tools":[`+items+`]}`), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	return Single(revision.Tools, page)
}

func TestCompare(t *testing.T) {
	before := bodyOf(t, `{"name":"a"},{"name":"\u0062","x":1},{"x":2,"name":"c"}`)
	now := bodyOf(t, `{"name":"d\"d"},{"name":"b","x":1},{"name":"a"}`)
	got := Compare(before, now)
	if fmt.Sprintf("%q %q %q %d", got.Added, got.Removed, got.Changed, got.More) != `["d\"d"] ["c"] ["b"] 0` {
		t.Errorf("got %+v", got)
	}
	if got := Compare(nil, now); len(got.Added) != 3 || len(got.Removed)+len(got.Changed)+got.More != 0 {
		t.Errorf("got %+v for a list that was not there", got)
	}
	if got := Compare(now, now); len(got.Added)+len(got.Removed)+len(got.Changed)+got.More != 0 {
		t.Errorf("got %+v for the same list", got)
	}
	if got := Compare(now, bodyOf(t, ``)); len(got.Removed) != 3 {
		t.Errorf("got %+v for an empty list", got)
	}
}

// Of very many differences only some are named.
func TestManyDifferences(t *testing.T) {
	for _, n := range []int{maxNamed, maxNamed + 1} {
		page, err := ParsePage(tinyList(n), revision.Tools)
		if err != nil {
			t.Fatal(err)
		}
		if got := Compare(nil, Single(revision.Tools, page)); len(got.Added) != maxNamed || got.More != n-maxNamed {
			t.Errorf("%d are named, %d more", len(got.Added), got.More)
		}
	}
	long := string(bytes.Repeat([]byte("x"), maxNamedBytes-1))
	if got := Compare(nil, bodyOf(t, `{"name":"`+long+`"},{"name":"y"},{"name":"z"}`)); len(got.Added) != 2 || got.More != 1 {
		t.Errorf("%d are named, %d more", len(got.Added), got.More)
	}
}

// Of pages, items of the same name are found wherever they are.
func TestSameNameOnAnyPage(t *testing.T) {
	for first := range 4 {
		for second := first + 1; second < 4; second++ {
			var pages []*Page
			for i := range 4 {
				name := fmt.Sprint(i)
				if i == second {
					name = fmt.Sprint(first)
				}
				next := `,"nextCursor":"n"`
				if i == 3 {
					next = ""
				}
				pages = append(pages, parsePages(t, revision.Tools, fmt.Sprintf(`{"tools":[{"name":%q}]%s}`, name, next))...)
				if i < 3 {
					pages = append(pages, parsePages(t, revision.Tools, `{"tools":[],"nextCursor":"e"}`)...)
				}
			}
			if _, err := Join(revision.Tools, pages); err == nil {
				t.Errorf("items %d and %d have the same name, and nobody minds", first, second)
			}
		}
	}
}
