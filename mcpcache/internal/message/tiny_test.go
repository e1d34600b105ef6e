package message

import (
	"bytes"
	"fmt"
	"slices"
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
			if b, err := Join(revision.Tools, pages); err != nil || !slices.Equal(b.Repeated, []string{fmt.Sprint(first)}) {
				t.Errorf("items %d and %d have the same name, found are %q, error %v", first, second, b.Repeated, err)
			}
		}
	}
}
