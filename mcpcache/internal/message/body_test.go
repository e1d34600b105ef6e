package message

import (
	"bytes"
	"crypto/sha256"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func parsePages(t testing.TB, kind revision.Kind, results ...string) []*Page {
	t.Helper()
	var pages []*Page
	for _, result := range results {
		p, err := ParsePage([]byte(result), kind)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, p)
	}
	return pages
}

func TestJoin(t *testing.T) {
	for name, tt := range map[string]struct {
		kind  revision.Kind
		pages []string
		want  Body // without the digest
		names []string
	}{
		"one page": {
			revision.Tools, []string{`{ "_meta": {"v":1} , "tools" : [ {"name":"a", "n":1.0} , {"name":"b"} ] , "ttlMs":5,"cacheScope":"public"}`},
			Body{
				Bytes: []byte(`"_meta":{"v":1},"tools":[{"name":"a", "n":1.0},{"name":"b"}],"cacheScope":"public"}}`),
				Items: 2, HasTTL: true, Scope: ScopePublic,
			}, []string{"a", "b"},
		},
		"three pages": {
			revision.Prompts, []string{
				`{"nextCursor":"1","prompts":[{"name":"b"}],"x":1}`,
				`{"prompts":[],"nextCursor":""}`,
				`{"prompts":[{"name":"a"}],"x":2,"y":3}`,
			},
			Body{Bytes: []byte(`"prompts":[{"name":"b"},{"name":"a"}],"x":1}}`), Items: 2}, []string{"b", "a"},
		},
		"scopes differ": {
			revision.Tools, []string{
				`{"cacheScope":"public","tools":[{"name":"a"}],"nextCursor":"1","ttlMs":1}`,
				`{"cacheScope":"private","tools":[]}`,
			},
			Body{Bytes: []byte(`"cacheScope":"private","tools":[{"name":"a"}]}}`), Items: 1, HasTTL: true, Scope: ScopePrivate}, []string{"a"},
		},
		"first page has no scope": {
			revision.Tools, []string{
				`{"tools":[{"name":"a"}],"nextCursor":"1"}`,
				`{"cacheScope":"public","tools":[]}`,
			},
			Body{Bytes: []byte(`"tools":[{"name":"a"}],"cacheScope":"private"}}`), Items: 1, Scope: ScopePrivate}, []string{"a"},
		},
		"last page has no scope": {
			revision.Tools, []string{
				`{"tools":[{"name":"a"}],"cacheScope":"public","nextCursor":"1"}`,
				`{"tools":[]}`,
			},
			Body{Bytes: []byte(`"tools":[{"name":"a"}],"cacheScope":"private"}}`), Items: 1, Scope: ScopePrivate}, []string{"a"},
		},
		"discover": {
			revision.Discover, []string{`{"supportedVersions":["2026-07-28"],"ttlMs":9,"nextCursor":1}`},
			Body{Bytes: []byte(`"supportedVersions":["2026-07-28"],"nextCursor":1}}`), HasTTL: true}, nil,
		},
		"nothing":       {revision.Discover, []string{`{}`}, Body{Bytes: []byte(`}}`)}, nil},
		"only ttlMs":    {revision.Discover, []string{`{"ttlMs":9}`}, Body{Bytes: []byte(`}}`), HasTTL: true}, nil},
		"escaped names": {revision.Tools, []string{`{"t\u006fols":[],"ttl\u004ds":9}`}, Body{Bytes: []byte(`"t\u006fols":[]}}`), HasTTL: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Join(tt.kind, parsePages(t, tt.kind, tt.pages...))
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Digest = sha256.Sum256(tt.want.Bytes)
			checkSplit(t, tt.kind, got)
			checkItemsDigest(t, tt.kind, got)
			exported := *got
			exported.kind, exported.first, exported.lengths, exported.ItemsDigest = 0, 0, nil, [32]byte{}
			if !reflect.DeepEqual(exported, tt.want) {
				t.Errorf("got %+v\nbytes %s\nwant %+v\nbytes %s", *got, got.Bytes, tt.want, tt.want.Bytes)
			}
			if names := got.Names(); !slices.Equal(names, tt.names) {
				t.Errorf("got names %q, want %q", names, tt.names)
			}
			pages := parsePages(t, tt.kind, tt.pages...)
			if again, err := Join(tt.kind, pages); err != nil || !reflect.DeepEqual(got, again) {
				t.Errorf("joining again: got %+v, error %v", again, err)
			}
			if pages := parsePages(t, tt.kind, tt.pages...); len(pages) == 1 && !reflect.DeepEqual(Single(tt.kind, pages[0]), got) {
				t.Error("Single differs from Join")
			}
		})
	}
}

// checkItemsDigest checks that the digest is that of the items as written, with
// the commas between them.
func checkItemsDigest(t *testing.T, kind revision.Kind, b *Body) {
	t.Helper()
	want := b.Digest
	if kind.ItemsKey() != "" {
		want = sha256.Sum256(bytes.Join(Items(b.Bytes, kind), []byte(",")))
	}
	if b.ItemsDigest != want {
		t.Errorf("digest of the items is %x, want %x", b.ItemsDigest, want)
	}
}

// checkSplit checks that the parts of a body are its items and what is around
// them.
func checkSplit(t *testing.T, kind revision.Kind, b *Body) {
	t.Helper()
	before, items, after, ok := b.Split()
	if want := Items(b.Bytes, kind); ok != (len(want) > 0) || ok && !reflect.DeepEqual(items, want) {
		t.Errorf("split into %q, want %q", items, want)
	}
	if whole := slices.Concat(before, bytes.Join(items, []byte(",")), after); ok && !bytes.Equal(whole, b.Bytes) {
		t.Errorf("the parts together are %s, want %s", whole, b.Bytes)
	}
}

func TestJoinRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		kind  revision.Kind
		pages []string
	}{
		"no pages":     {revision.Tools, nil},
		"half a walk":  {revision.Tools, []string{`{"tools":[],"nextCursor":""}`}},
		"incomplete":   {revision.Tools, []string{`{"tools":[],"nextCursor":"1"}`, `{"tools":[],"resultType":"task"}`}},
		"two discover": {revision.Discover, []string{`{}`, `{}`}},
	} {
		if b, err := Join(tt.kind, parsePages(t, tt.kind, tt.pages...)); err == nil || b != nil {
			t.Errorf("%s: got %v, error %v", name, b, err)
		}
	}
}

// TestRepeatedNames has items of one name, in a page and over two: all are kept, and the
// names are known, a few of them and not all of long ones.
func TestRepeatedNames(t *testing.T) {
	long := strings.Repeat("é", maxRepeatedName)
	for name, tt := range map[string]struct {
		pages []string
		items int
		want  []string
	}{
		"none":       {[]string{`{"tools":[{"name":"a"},{"name":"b"}]}`}, 2, nil},
		"in a page":  {[]string{`{"tools":[{"name":"a"},{"name":"\u0061"},{"name":"a"}]}`}, 3, []string{"a"}},
		"over two":   {[]string{`{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"1"}`, `{"tools":[{"name":"b"},{"name":"\u0061"}]}`}, 4, []string{"b", "a"}},
		"in another": {[]string{`{"tools":[{"name":"b"}],"nextCursor":"1"}`, `{"tools":[{"name":"a"},{"name":"a"}]}`}, 3, []string{"a"}},
		"many": {[]string{`{"tools":[` + strings.Repeat(`{"name":"1"},{"name":"2"},{"name":"3"},{"name":"4"},{"name":"5"},{"name":"6"},`, 2) + `{"name":"x"}]}`},
			13, []string{"1", "2", "3", "4", "5"}},
		"long": {[]string{`{"tools":[{"name":"` + long + `"},{"name":"` + long + `"}]}`}, 2, []string{long[:maxRepeatedName]}},
	} {
		b, err := Join(revision.Tools, parsePages(t, revision.Tools, tt.pages...))
		if err != nil || b.Items != tt.items || !slices.Equal(b.Repeated, tt.want) {
			t.Errorf("%s: got %d items, %q, error %v", name, b.Items, b.Repeated, err)
		}
	}
}

func TestSingleKeepsCursor(t *testing.T) {
	result := []byte(`{"nextCursor":"\u006e","ttlMs":1,"tools":[{"name":"a"}],"cacheScope":"other"}`)
	p, err := ParsePage(result, revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	b := Single(revision.Tools, p)
	if want := `"nextCursor":"\u006e","tools":[{"name":"a"}],"cacheScope":"other"}}`; string(b.Bytes) != want {
		t.Errorf("got %s, want %s", b.Bytes, want)
	}
	if string(b.NextCursor) != `"\u006e"` || b.Items != 1 || b.Names()[0] != "a" || !b.HasTTL || b.Scope != ScopePrivate {
		t.Errorf("got %+v", b)
	}
}

func TestItems(t *testing.T) {
	pages := parsePages(t, revision.Tools,
		`{"a":{"tools":[1]},"tools":[{"name":"1","tools":[{}]}, {"name":"2"}],"nextCursor":"n"}`, toolPage(10, 30, false))
	b, err := Join(revision.Tools, pages)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(itemsOf(pages[0]), itemsOf(pages[1]))
	if got := Items(b.Bytes, revision.Tools); !reflect.DeepEqual(got, want) {
		t.Errorf("got %s\nwant %s", bytes.Join(got, []byte("\n")), bytes.Join(want, []byte("\n")))
	}
	for _, kind := range []revision.Kind{revision.Prompts, revision.Discover, revision.Reads} {
		if got := Items(b.Bytes, kind); got != nil {
			t.Errorf("%s: got %s", kind, got)
		}
	}
	for _, data := range []string{"", "}}", "x", `"tools":1}}`, `"tools":[`, `"tools":[{"name":"a"`, `"x":[`} {
		if got := Items([]byte(data), revision.Tools); got != nil {
			t.Errorf("%s: got %s", data, got)
		}
	}
}

// The space reserved for a body suffices in the worst case.
func TestBodySize(t *testing.T) {
	for _, results := range [][]string{
		{`{}`},
		{`{"a":1}`},
		{`{"tools":[]}`},
		{`{"tools":[],"nextCursor":"1"}`, `{"tools":[{"name":"a"},{"name":"b"}],"cacheScope":"public"}`},
		{toolPage(0, 50, true), strings.Replace(toolPage(50, 50, false), "public", "private", 1)},
	} {
		kind := revision.Tools
		if !strings.Contains(results[0], "tools") {
			kind = revision.Discover
		}
		w := bodyWriter{pages: parsePages(t, kind, results...), scope: []byte(`"private"`)} // not in place
		size := w.size()
		if got := w.write(); len(got) > size || cap(got) > size+size/4+64 {
			t.Errorf("%d bytes reserved, %d of %d used", size, len(got), cap(got))
		}
	}
}
