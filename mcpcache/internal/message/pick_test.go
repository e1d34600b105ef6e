package message

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// toolsBody is the body of a result as it is parsed.
func toolsBody(t *testing.T, result string) *Body {
	t.Helper()
	page, err := ParsePage([]byte(result), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	return Single(revision.Tools, page)
}

// TestPick compares with the bodies of lists that have had no other items, in every
// field.
func TestPick(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var all, some []string
		for i := range r.IntN(20) {
			item := fmt.Sprintf(`{ "name":"%d","d":%q}`, i, strings.Repeat("x", r.IntN(9)))
			if all = append(all, item); r.IntN(2) == 0 {
				some = append(some, item)
			}
		}
		result := `{"a":[1, 2],"ttlMs":5,"tools":[%s],"cacheScope":"public","nextCursor":"n","z":{}}`
		body := toolsBody(t, fmt.Sprintf(result, strings.Join(all, ",")))
		before, after := body.Ends()
		for _, kept := range [][]string{all, some, nil} {
			next := 0
			got := Pick(revision.Tools, body, before, body.Each(), after, func(item []byte) bool {
				chosen := next < len(kept) && kept[next] == string(item)
				if chosen {
					next++
				}
				return chosen
			})
			want := toolsBody(t, fmt.Sprintf(result, strings.Join(kept, ",")))
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got  %+v\nwant %+v", got, want)
			}
			if wasted := cap(got.Bytes) - len(got.Bytes); wasted > 1 {
				t.Errorf("%d bytes are wasted", wasted)
			}
		}
	}
}

// TestCut compares with the bodies of pages as a server cuts them, in every field.
func TestCut(t *testing.T) {
	const result = `{"a":[1, 2],"ttlMs":5,"tools":[%s]%s,"cacheScope":"public","z":{}}`
	items := []string{`{ "name":"a"}`, `{"name":"b" }`, `{"name":"c"}`}
	body := toolsBody(t, fmt.Sprintf(result, strings.Join(items, ","), ""))
	before, after := body.Ends()
	for from := range len(items) + 1 {
		for size := 1; size < 4; size++ {
			for _, next := range [][]byte{nil, []byte(`"n"`)} {
				member := ""
				if next != nil {
					member = `,"nextCursor":"n"`
				}
				page := strings.Join(items[from:min(from+size, len(items))], ",")
				got, want := Cut(revision.Tools, body, before, body.Each(), after, from, size, next), toolsBody(t, fmt.Sprintf(result, page, member))
				if !reflect.DeepEqual(got, want) {
					t.Errorf("from %d, %d items, next %q:\ngot  %s\nwant %s", from, size, next, got.Bytes, want.Bytes)
				}
			}
		}
	}
	if again, end := body.Ends(); !bytes.Equal(again, before) || !bytes.Equal(end, after) {
		t.Error("the list has changed")
	}
}

func TestOtherLists(t *testing.T) {
	for result, want := range map[string]bool{
		`{"tools":[]}`: false,
		`{"a":{"prompts":[]},"tools":[{"name":"a"}]}`:       false,
		`{"tools":[{"name":"a","prompts":[]}],"z":1}`:       false,
		`{"tools":[{"name":"a"},{"name":"b"}],"z":1}`:       false,
		`{"prompts":[],"tools":[{"name":"a"}]}`:             true,
		`{"tools":[{"name":"a"}],"resources":{}}`:           true,
		`{"tools":[],"resource\u0054emplates":[]}`:          true,
		`{"tools":[],"Resources":[],"cacheScope":"public"}`: true,
	} {
		before, after := toolsBody(t, result).Ends()
		if got := OtherLists(revision.Tools, bytes.Clone(before), bytes.Clone(after)); got != want {
			t.Errorf("%s: %v", result, got)
		}
	}
}
