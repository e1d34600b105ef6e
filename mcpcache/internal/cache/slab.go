package cache

import "slices"

// slabSize is the size in bytes of a slab that many items share: a page of the runtime's
// allocator.
const slabSize = 8 << 10

// slabOverhead is what a slab costs besides its bytes and its items.
const slabOverhead = 64

// slab holds the bytes of items that came in one list, next to each other. Allocated one
// by one they fragment the heap as lists come and go, which takes half as much memory
// again. A slab is freed, and not charged any more, with the last of its items.
type slab struct {
	bytes []byte // of a fixed capacity

	// Guarded by contents.mu:

	cost  int64    // what it and all its items are charged
	items int      // those that are in use
	payer *content // the content that is charged for it; nil if it counts as unpaid
}

func newSlab(size int) *slab {
	// The allocator rounds sizes up: the capacity is what it really takes.
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
