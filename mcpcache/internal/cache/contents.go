package cache

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// contents holds the bytes of the lists in the bounded store: each list once, however
// many partitions have it, and each item once, however many lists it is in.
//
// Everything is charged once: a content to the first entry that uses it, a slab of items
// to the first content. When an entry or content that was charged goes while others
// still use the bytes, these count as unpaid until the next user is charged: the size of
// the store is smaller by so much meanwhile. What nobody uses is freed.
type contents struct {
	seed maphash.Seed
	// resize tells the store how many bytes its entries may be charged.
	resize     func(int64)
	compressed *encoded.Set

	mu     sync.Mutex
	memory int64
	byKey  map[contentKey]*content
	items  map[uint64]*item // by hash, then linked
	unpaid int64
}

func newContents(memory int64, compressed *encoded.Set) *contents {
	return &contents{
		seed: maphash.MakeSeed(), compressed: compressed, memory: memory,
		byKey: make(map[contentKey]*content), items: make(map[uint64]*item),
	}
}

// kept is an entry in the bounded store.
type kept struct {
	entry *Entry
	// cost is what the entry is charged, in bytes.
	cost       int64
	content    *content      // shared; nil if the entry has bytes of its own
	compressed *encoded.Body // of the entry's own bytes, nil if they are few
	left       bool          // it is out of the bounded store; guarded by contents.mu
}

// keep makes e ready for the bounded store, in the place of old if that is not nil. If
// the store does not keep it after all, drop must be called.
func (s *contents) keep(e *Entry, old *kept) *kept {
	k := &kept{entry: e, cost: e.cost()}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.content = s.find(e)
	if c := k.content; c != nil {
		c.refs++
		k.entry = c.entryOf(e)
		k.cost = k.entry.cost()
	} else {
		k.compressed = s.compressed.Hold(e)
	}
	if old != nil {
		s.leave(old)
	}
	if c := k.content; c != nil {
		k.cost += s.pay(c, k)
	}
	s.resize(s.memory - s.unpaid)
	return k
}

// drop is called when k has left the bounded store. It may be called more than once.
func (s *contents) drop(k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(k)
	s.resize(s.memory - s.unpaid)
}

// setMemory changes how many bytes everything together may take.
func (s *contents) setMemory(memory int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory = memory
	s.resize(s.memory - s.unpaid)
}

// find returns the content that e's list is, a new one if need be, or nil if
// the list is not to be shared.
func (s *contents) find(e *Entry) *content {
	if len(e.Body.Bytes) < leastShared {
		return nil
	}
	key := keyOf(e)
	c := s.byKey[key]
	if c == nil {
		if parts, ok := splitList(e); ok {
			c = s.add(key, e.Body, parts)
			c.compressed = s.compressed.Hold(e)
		}
	}
	return c
}

// add makes a content. It is unpaid yet, as are its new slabs.
func (s *contents) add(key contentKey, body *message.Body, parts split) *content {
	c := &content{
		key: key,
		body: &message.Body{
			Digest: body.Digest, ItemsDigest: body.ItemsDigest, Items: body.Items, HasTTL: body.HasTTL, NextCursor: body.NextCursor, Scope: body.Scope,
		},
		before: bytes.Clone(parts.before), after: bytes.Clone(parts.after),
		items: make([]*item, len(parts.items)),
	}
	c.charge = int64(contentOverhead + len(c.before) + len(c.after) + len(body.NextCursor) + itemReference*len(c.items))
	s.addItems(c, parts.items)
	s.unpaid += c.charge
	s.byKey[key] = c
	return c
}

// addItems gives c its items: those that are known, and new ones in slabs.
func (s *contents) addItems(c *content, texts [][]byte) {
	hashes := make([]uint64, len(texts))
	missing := 0 // bytes of new items
	for n, data := range texts {
		hashes[n] = maphash.Bytes(s.seed, data)
		if s.item(hashes[n], data) == nil {
			missing += len(data)
		}
	}
	var room *slab
	for n, data := range texts {
		i := s.item(hashes[n], data)
		if i == nil {
			if room == nil || !room.fits(data) {
				room = newSlab(max(len(data), min(missing, slabSize)))
				s.unpaid += room.cost
			}
			missing -= len(data)
			s.unpaid += itemOverhead
			i = &item{bytes: room.add(data), hash: hashes[n], slab: room, next: s.items[hashes[n]]}
			s.items[i.hash] = i
		}
		i.refs++
		c.items[n] = i
	}
}

// item returns the item of those bytes, or nil.
func (s *contents) item(hash uint64, data []byte) *item {
	for i := s.items[hash]; i != nil; i = i.next {
		if bytes.Equal(i.bytes, data) {
			return i
		}
	}
	return nil
}

// pay charges c to k, and the slabs of its items to c, as far as they are unpaid. It
// returns what k is charged.
func (s *contents) pay(c *content, k *kept) int64 {
	if c.payer != nil {
		return 0
	}
	c.payer = k
	s.unpaid -= c.charge
	for _, i := range c.items {
		if b := i.slab; b.payer == nil {
			b.payer = c
			c.charge += b.cost
			s.unpaid -= b.cost
		}
	}
	return c.charge
}

// leave ends the use of a content by k.
func (s *contents) leave(k *kept) {
	if k.left {
		return
	}
	k.left = true
	s.compressed.Release(k.compressed)
	c := k.content
	if c == nil {
		return
	}
	if c.payer == k {
		c.payer = nil
		s.unpaid += c.charge
	}
	c.refs--
	if c.refs == 0 {
		s.free(c)
	}
}

// free forgets a content that no entry uses, the items that were in no other, and the
// slabs of which no item is left. Other slabs that it was charged for become unpaid.
func (s *contents) free(c *content) {
	delete(s.byKey, c.key)
	s.compressed.Release(c.compressed)
	s.unpaid -= c.charge
	for _, i := range c.items {
		if b := i.slab; b.payer == c {
			b.payer = nil
			s.unpaid += b.cost
		}
		i.refs--
		if i.refs == 0 {
			s.forget(i)
		}
	}
}

// forget takes an item out of the index and out of its slab. If it was the last one
// there, the slab is gone.
func (s *contents) forget(i *item) {
	i.slab.items--
	if i.slab.items == 0 {
		s.unpaid -= i.slab.cost
	}
	first := s.items[i.hash]
	if first == i {
		if i.next == nil {
			delete(s.items, i.hash)
		} else {
			s.items[i.hash] = i.next
		}
		return
	}
	for first.next != i {
		first = first.next
	}
	first.next = i.next
}
