package message

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

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
	Names       []string // unescaped names of the items, in order
	HasTTL      bool     // the upstream gave ttlMs, so an answer must carry one
	NextCursor  []byte   // raw JSON string; nil when absent
	Scope       Scope    // private if any page is or if pages differ; unset if all are

	first   int   // where the items begin
	lengths []int // of the items, which have a comma between them
}

// Split returns what of Bytes is before the first item, the items, which have a
// comma between them, and what is after the last one. It reports false if there
// are no items.
func (b *Body) Split() (before []byte, items [][]byte, after []byte, ok bool) {
	if len(b.lengths) == 0 {
		return nil, nil, nil, false
	}
	items = make([][]byte, len(b.lengths))
	at := b.first
	for i, n := range b.lengths {
		items[i] = b.Bytes[at : at+n : at+n]
		at += n + len(",")
	}
	return b.Bytes[:b.first], items, b.Bytes[at-len(","):], true
}

// Join makes one page of a whole walk. Its members are those of the first page,
// in their order and as written, with the items of all pages in the array, each
// byte for byte. Left out are ttlMs and nextCursor. When the pages' cacheScopes
// differ, "private" is written. The same pages always give the same bytes.
//
// It is an error if the walk is not whole: without pages, with an incomplete
// result, or with a last page that has a cursor. It is an error if two items
// have the same name, or if a kind that is not a list has several pages.
func Join(kind revision.Kind, pages []*Page) (*Body, error) {
	if err := checkWalk(kind, pages); err != nil {
		return nil, fmt.Errorf("joining %s: %w", kind, err)
	}
	scope, agree := joinScopes(pages)
	w := bodyWriter{pages: pages, skip: 1<<pageTTL | 1<<pageCursor}
	if !agree {
		w.scope = []byte(`"private"`)
	}
	b := &Body{Scope: scope}
	for _, p := range pages {
		b.Names = append(b.Names, p.names...)
		b.HasTTL = b.HasTTL || p.HasTTL
	}
	b.fill(kind, &w)
	return b, nil
}

// Single makes a body of one page as it is, its nextCursor as written. A page
// without nextCursor gives the same bytes as a walk of that page alone.
func Single(kind revision.Kind, p *Page) *Body {
	b := &Body{Names: p.names, HasTTL: p.HasTTL, NextCursor: bytes.Clone(p.NextCursor), Scope: p.Scope}
	w := bodyWriter{pages: []*Page{p}, skip: 1 << pageTTL}
	b.fill(kind, &w)
	return b
}

func (b *Body) fill(kind revision.Kind, w *bodyWriter) {
	b.Bytes = w.write()
	b.Digest = sha256.Sum256(b.Bytes)
	b.Items = len(b.Names)
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
	before := map[string]bool{}
	for i, p := range pages {
		if !p.Complete {
			return fmt.Errorf("page %d: result is not complete", i)
		}
		for j, name := range p.names {
			if before[name] {
				return fmt.Errorf("page %d, item %d: %s of an earlier item", i, j, kind.IDKey())
			}
			before[name] = true
		}
	}
	return nil
}

// bodyWriter writes the members of the first page with the items of all pages.
type bodyWriter struct {
	pages []*Page
	skip  seen   // keys of members to leave out
	scope []byte // raw cacheScope to write in place of the first page's; nil for none
	out   []byte

	first   int   // where the items begin
	end     int   // where they end
	lengths []int // of the items
}

func (w *bodyWriter) write() []byte {
	w.out = make([]byte, 0, w.size())
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
	return append(w.out, "}}"...)
}

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
	for _, p := range w.pages {
		for _, item := range p.items {
			if len(w.lengths) > 0 {
				w.out = append(w.out, ',')
			}
			w.lengths = append(w.lengths, len(item))
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
		for _, item := range p.items {
			n += len(item) + len(`,`)
		}
	}
	return n
}
