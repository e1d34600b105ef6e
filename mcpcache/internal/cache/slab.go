package cache

import "slices"

// slabSize is the size in bytes of a slab that many items share. It is what the
// runtime gives memory out by: a slab of it has a page of its own.
const slabSize = 8 << 10

// slabOverhead is what a slab costs besides its bytes and its items.
const slabOverhead = 64

// slab holds the bytes of items that came in one list, next to each other. Each
// by itself would leave a hole on the heap when it goes, between others that
// stay: with lists that come and go, half as much again as the lists take. A
// slab is gone, and not charged any more, when the last of its items is.
type slab struct {
	bytes []byte // of a fixed capacity

	// Guarded by contents.mu:

	cost  int64    // what it and all its items are charged
	items int      // those that are in use
	payer *content // the content that is charged for it; nil: the contents are
}

func newSlab(size int) *slab {
	// Memory comes in sizes of its own: the capacity says what it really takes.
	b := &slab{bytes: slices.Grow([]byte(nil), size)}
	b.cost = int64(slabOverhead + cap(b.bytes))
	return b
}

// fits reports whether there is room for data.
func (b *slab) fits(data []byte) bool { return cap(b.bytes)-len(b.bytes) >= len(data) }

// add copies data, which must fit, and returns the copy.
func (b *slab) add(data []byte) []byte {
	begin := len(b.bytes)
	b.bytes = append(b.bytes, data...)
	b.cost += itemOverhead
	b.items++
	return b.bytes[begin:len(b.bytes):len(b.bytes)]
}
