package catalog

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cursor"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// Page returns the part of a list, as its callers are shown it, that begins at a position,
// nil being the beginning: at most size items, and a cursor to what follows, which seal
// makes. What the server itself has cut is one page, and so is what is no list. It returns
// nil if the position is nowhere: what the page before has ended with is gone. With keep,
// the page is kept as long as there is room.
func (c *Catalog) Page(e *cache.Entry, at *cursor.Position, size int, keep bool, seal func(cursor.Position) string) *cache.Entry {
	from, ok := 0, true
	switch {
	case e.Kind.ItemsKey() == "" || e.Body.NextCursor != nil || e.Detail != nil:
		if at != nil {
			return nil
		}
		return e
	case at != nil:
		from, ok = find(e, at)
	}
	if !ok {
		return nil
	}
	end := from + size
	if end >= e.Body.Items {
		if from == 0 {
			return e
		}
		return c.cache.Page(e, from, size, nil, keep)
	}
	digest := e.Body.Digest
	next := cursor.Position{Index: uint32(end), Last: cursor.NameHash(nameOf(e, end-1)), List: [16]byte(digest[:16])}
	quoted, _ := jsontext.AppendQuote(nil, seal(next)) // it is ASCII
	return c.cache.Page(e, from, size, quoted, keep)
}

// find returns the number of the item at a position in a list.
func find(e *cache.Entry, at *cursor.Position) (number int, ok bool) {
	if at.List == [16]byte(e.Body.Digest[:16]) {
		return int(at.Index), true
	}
	for item := range e.Each() {
		number++
		if cursor.NameHash(message.NameOf(e.Kind, item)) == at.Last {
			return number, true
		}
	}
	return 0, false
}

// nameOf returns the name of the item of that number.
func nameOf(e *cache.Entry, number int) string {
	for item := range e.Each() {
		if number--; number < 0 {
			return message.NameOf(e.Kind, item)
		}
	}
	return ""
}
