package cache

import (
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// leastShared is the size in bytes of the smallest list whose bytes are
	// shared with others.
	leastShared = 1 << 10
	// contentOverhead and itemOverhead are what a content and an item cost
	// besides their bytes: the structs and their place in the index, rounded
	// up.
	contentOverhead = 512
	itemOverhead    = 112
	// itemReference is what a content costs for each of its items.
	itemReference = 8
)

// content is the bytes of a list that several entries may have in common. It is
// immutable, except for the fields that are guarded.
type content struct {
	key contentKey
	// body is that of the entries, without the bytes.
	body          *message.Body
	before, after []byte // the first and the last item
	items         []*item
	compressed    *encoded.Body // nil if it is small

	// Guarded by contents.mu:

	refs  int   // entries
	payer *kept // the entry that is charged for it; nil if it counts as unpaid
	// charge is what the content costs, with the slabs that it is charged for.
	charge int64
}

// contentKey is what lists that share a content have in common. The digest does not
// cover whether the upstream gave a ttlMs.
type contentKey struct {
	digest [32]byte
	size   int
	kind   revision.Kind
	hasTTL bool
}

func keyOf(e *Entry) contentKey {
	return contentKey{e.Body.Digest, len(e.Body.Bytes), e.Kind, e.Body.HasTTL}
}

// item is an item that several contents may have in common.
type item struct {
	bytes []byte
	hash  uint64
	slab  *slab // where the bytes are

	// Guarded by contents.mu:

	next *item // with the same hash
	refs int   // contents
}

// entryOf returns e with the shared bytes in place of its own.
func (c *content) entryOf(e *Entry) *Entry {
	shared := *e
	shared.Body, shared.content = c.body, c
	return &shared
}

// eachPart calls f with all bytes in order, until it returns an error.
func (c *content) eachPart(f func([]byte) error) error {
	if err := f(c.before); err != nil {
		return err
	}
	for i, item := range c.items {
		if i > 0 {
			if err := f(comma); err != nil {
				return err
			}
		}
		if err := f(item.bytes); err != nil {
			return err
		}
	}
	return f(c.after)
}

var comma = []byte(",")

// split is a list taken apart.
type split struct {
	before, after []byte
	items         [][]byte
}

// splitList takes the bytes of an entry apart, unless it is not a list, or its items are
// so small that sharing them would cost more than repeating them.
func splitList(e *Entry) (split, bool) {
	if e.Body.Items*(itemOverhead+itemReference) > len(e.Body.Bytes) {
		return split{}, false
	}
	before, items, after, ok := e.Body.Split()
	if !ok {
		return split{}, false
	}
	return split{before: before, items: items, after: after}, true
}
