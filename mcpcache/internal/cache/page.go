package cache

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// Page returns a part of a list: of its items size from the one of number from on. next is
// the cursor of the next page, a raw JSON string; nil: it is the last one. With keep, it is
// kept in the bounded store. Only its bytes are to be used, as of what [Cache.VisibleTo] returns.
func (c *Cache) Page(e *Entry, from, size int, next []byte, keep bool) *Entry {
	q := e.question()
	q.view = pageHash(e.view, from, size, next)
	if kept := c.Get(q); keep && kept != nil && kept.of == e.Body.Digest {
		return kept
	}
	before, items, after := e.takeApart()
	made := *e
	made.content, made.view, made.of = nil, q.view, e.Body.Digest
	made.Body = message.Cut(e.Kind, e.Body, before, items, after, from, size, next)
	if keep {
		c.Put(&made)
	}
	return &made
}

// pageHash stands for a page of a view in the bounded store.
func pageHash(of viewHash, from, size int, next []byte) viewHash {
	said := append([]byte("page"), of[:]...)
	said = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(said, uint64(from)), uint64(size))
	sum := sha256.Sum256(append(said, next...))
	return viewHash(sum[:])
}
