package message

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Body is what an answer is spliced from: everything of the result but ttlMs.
// It is immutable and keeps nothing of its pages alive.
type Body struct {
	// Bytes are the result's members without the opening brace, then the two
	// closing braces of the result and of the message:
	// `"tools":[...],"cacheScope":"public"}}`. A result without members is "}}".
	Bytes  []byte
	Digest [32]byte // SHA-256 of Bytes
	// ItemsDigest is the SHA-256 of the items and the commas between them; of
	// what is not a list, of Bytes.
	ItemsDigest [32]byte
	Items       int
	HasTTL      bool   // the upstream gave ttlMs, so an answer must carry one
	NextCursor  []byte // raw JSON string; nil when absent
	Scope       Scope  // private if any page is or if pages differ; unset if all are
	// Repeated are names that more than one item has, the first five of them; only of
	// what the server has sent as one list. Servers should not do that, but some do
	// (2025-11-25, "Tool Names"; anythingmcp#313).
	Repeated []string

	kind    revision.Kind
	first   int      // where the items begin
	lengths []uint32 // of the items, which have a comma between them
}

// Footprint returns how many bytes the body takes.
func (b *Body) Footprint() int64 { return int64(cap(b.Bytes) + 4*cap(b.lengths) + len(b.NextCursor)) }

// Names returns the unescaped names of the items, in order. They are found anew
// each time.
func (b *Body) Names() []string {
	var names []string
	for item := range b.Each() {
		names = append(names, b.Name(item))
	}
	return names
}

// Name returns the unescaped name of one of the items.
func (b *Body) Name(item []byte) string { return NameOf(b.kind, item) }

// NameOf returns the unescaped name of an item of that kind, as written; "" if it has
// none that can be read.
func NameOf(k revision.Kind, item []byte) string { return string(nameOf(item, keys(k.IDKey()))) }

// IsNamed reports whether an item of that kind, as written, has that unescaped name. An item
// is read only if it may have the name, as lists are long.
func IsNamed(k revision.Kind, item []byte, name string) bool {
	if !bytes.Contains(item, []byte(name)) && bytes.IndexByte(item, '\\') < 0 {
		return false
	}
	return NameOf(k, item) == name
}

// Each goes through the items, as written.
func (b *Body) Each() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		at := b.first
		for _, n := range b.lengths {
			end := at + int(n)
			if !yield(b.Bytes[at:end:end]) {
				return
			}
			at = end + len(",")
		}
	}
}

// Split returns what of Bytes is before the first item, the items, which have a
// comma between them, and what is after the last one. It reports false if there
// are no items.
func (b *Body) Split() (before []byte, items [][]byte, after []byte, ok bool) {
	if len(b.lengths) == 0 {
		return nil, nil, nil, false
	}
	before, after = b.Ends()
	return before, slices.AppendSeq(make([][]byte, 0, len(b.lengths)), b.Each()), after, true
}

// Ends returns what of a list's Bytes is before its items and what is after them.
func (b *Body) Ends() (before, after []byte) {
	end := b.first + max(len(b.lengths)-1, 0)*len(",")
	for _, n := range b.lengths {
		end += int(n)
	}
	return b.Bytes[:b.first], b.Bytes[end:]
}

// Join makes one page of a whole walk. Its members are those of the first page,
// in their order and as written, with the items of all pages in the array, each
// byte for byte. Left out are ttlMs and nextCursor. When the pages' cacheScopes
// differ, "private" is written. The same pages always give the same bytes. A page
// that is the only one is used up, see [Single].
//
// It is an error if the walk is not whole: without pages, with an incomplete
// result, or with a last page that has a cursor. It is an error if a kind that is not a
// list has several pages.
func Join(kind revision.Kind, pages []*Page) (*Body, error) {
	if err := checkWalk(kind, pages); err != nil {
		return nil, fmt.Errorf("joining %s: %w", kind, err)
	}
	again := repeatedIn(pages)
	scope, agree := joinScopes(pages)
	w := bodyWriter{pages: pages, skip: 1<<pageTTL | 1<<pageCursor}
	if !agree {
		w.scope = []byte(`"private"`)
	}
	b := &Body{Scope: scope, kind: kind, Repeated: again}
	for _, p := range pages {
		b.HasTTL = b.HasTTL || p.HasTTL
	}
	b.fill(kind, &w)
	return b, nil
}

// Single makes a body of one page as it is, its nextCursor as written. A page
// without nextCursor gives the same bytes as a walk of that page alone.
//
// The page is used up, and the result that was given to [ParsePage] with it: the
// body is put together in its place. A list is long, and is not to be there
// twice. Of the page, only Count, TTL, HasTTL, Scope, Complete and whether there
// is a NextCursor may be looked at afterwards.
func Single(kind revision.Kind, p *Page) *Body {
	b := &Body{HasTTL: p.HasTTL, NextCursor: bytes.Clone(p.NextCursor), Scope: p.Scope, kind: kind, Repeated: repeatedIn([]*Page{p})}
	w := bodyWriter{pages: []*Page{p}, skip: 1 << pageTTL}
	b.fill(kind, &w)
	return b
}

func (b *Body) fill(kind revision.Kind, w *bodyWriter) {
	b.Bytes = w.write()
	b.Digest = sha256.Sum256(b.Bytes)
	b.Items = len(w.lengths)
	b.first, b.lengths = w.first, w.lengths
	b.ItemsDigest = b.Digest
	if kind.ItemsKey() != "" {
		b.ItemsDigest = sha256.Sum256(b.Bytes[w.first:w.end])
	}
}

func checkWalk(kind revision.Kind, pages []*Page) error {
	switch {
	case len(pages) == 0:
		return errors.New("no pages")
	case len(pages) > 1 && kind.ItemsKey() == "":
		return errors.New("several pages of what is not a list")
	case pages[len(pages)-1].NextCursor != nil:
		return errors.New("the last page is missing")
	}
	for i, p := range pages {
		if !p.Complete {
			return fmt.Errorf("page %d: result is not complete", i)
		}
	}
	total := 0
	for _, p := range pages {
		total += len(p.result)
	}
	if uint64(total) > maxSize {
		return errTooLong
	}
	return nil
}

// repeatedIn returns the names that more than one item of a list has.
func repeatedIn(pages []*Page) []string {
	if pages[0].items == nil {
		return nil
	}
	if len(pages) == 1 {
		return pages[0].items.again
	}
	ends := make([]uint32, len(pages)) // how many items there are up to a page's last
	total := 0
	for i, p := range pages {
		total += p.Count
		ends[i] = uint32(total)
	}
	names := newNameSet(total, func(number uint32) []byte {
		i, _ := slices.BinarySearch(ends, number+1)
		return pages[i].items.name(number - (ends[i] - uint32(pages[i].Count)))
	})
	var again repeated
	for number := range ends[len(ends)-1] {
		if !names.add(number) {
			again.add(names.name(number))
		}
	}
	return again
}

// bodyWriter writes the members of the first page with the items of all pages.
type bodyWriter struct {
	pages []*Page
	skip  seen   // keys of members to leave out
	scope []byte // raw cacheScope to write in place of the first page's; nil for none
	out   []byte

	first   int      // where the items begin
	end     int      // where they end
	lengths []uint32 // of the items
}

func (w *bodyWriter) write() []byte {
	if w.inPlace() {
		w.out = w.pages[0].result[:0:len(w.pages[0].result)]
	} else {
		w.out = make([]byte, 0, w.size())
	}
	hasScope := false
	for _, m := range w.pages[0].members {
		switch {
		case m.key != unknown && w.skip.has(m.key):
		case m.key == pageItems:
			w.name(m.name)
			w.items()
		case m.key == pageScope && w.scope != nil:
			hasScope = true
			w.name(m.name)
			w.out = append(w.out, w.scope...)
		default:
			w.name(m.name)
			w.out = append(w.out, m.value...)
		}
	}
	if w.scope != nil && !hasScope {
		w.name([]byte(`"cacheScope"`))
		w.out = append(w.out, w.scope...)
	}
	w.out = append(w.out, "}}"...)
	if wasted := cap(w.out) - len(w.out); wasted > cap(w.out)/8 {
		w.out = bytes.Clone(w.out)
	}
	return w.out
}

// inPlace reports whether the body is written over the only page's result. All
// parts stay in their order and none gets longer, and what is between them can
// only get shorter: each is read before it is written over. For the second brace
// at the end there is the place of the first one at the beginning.
func (w *bodyWriter) inPlace() bool { return len(w.pages) == 1 && w.scope == nil }

func (w *bodyWriter) name(name []byte) {
	if len(w.out) > 0 {
		w.out = append(w.out, ',')
	}
	w.out = append(w.out, name...)
	w.out = append(w.out, ':')
}

func (w *bodyWriter) items() {
	w.out = append(w.out, '[')
	w.first = len(w.out)
	total := 0
	for _, p := range w.pages {
		total += p.Count
	}
	w.lengths = make([]uint32, 0, total)
	for _, p := range w.pages {
		for i := range p.Count {
			if len(w.lengths) > 0 {
				w.out = append(w.out, ',')
			}
			item := p.items.item(i)
			w.lengths = append(w.lengths, p.items.lengths[i])
			w.out = append(w.out, item...)
		}
	}
	w.end = len(w.out)
	w.out = append(w.out, ']')
}

// size returns a length that the body does not exceed.
func (w *bodyWriter) size() int {
	n := len(`,"cacheScope":"private"}}`)
	for _, m := range w.pages[0].members {
		n += len(m.name) + len(m.value) + len(`,:`)
	}
	for _, p := range w.pages[1:] {
		for i := range p.Count {
			n += len(p.items.item(i)) + len(`,`)
		}
	}
	return n
}
