package message

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"
)

// repeated are the first few names of those that come more than once, each once.
type repeated []string

const (
	// maxRepeated is how many of them are remembered.
	maxRepeated = 5
	// maxRepeatedName is how much of each is, in bytes.
	maxRepeatedName = 128
)

func (r *repeated) add(name []byte) {
	text := strings.ToValidUTF8(string(name[:min(len(name), maxRepeatedName)]), "")
	if len(*r) < maxRepeated && !slices.Contains(*r, text) {
		*r = append(*r, text)
	}
}

// nameSet is a set of names that are kept elsewhere, by their numbers: a hash
// table with open addressing. A map of strings would take ten times the room.
type nameSet struct {
	slots []uint32 // a name's number and 1; 0 if free
	seed  maphash.Seed
	name  func(number uint32) []byte
}

// nameCost is what a name takes in a set, in bytes: a slot and a half.
const nameCost = 6

// newNameSet returns a set of at most n names.
func newNameSet(n int, name func(number uint32) []byte) *nameSet {
	return &nameSet{slots: make([]uint32, n+n/2+1), seed: maphash.MakeSeed(), name: name}
}

// add adds a name by its number. It reports whether the name is new.
func (s *nameSet) add(number uint32) bool {
	slot, found := s.find(s.name(number))
	if !found {
		s.slots[slot] = number + 1
	}
	return !found
}

// get returns the number of a name.
func (s *nameSet) get(name []byte) (number uint32, ok bool) {
	slot, found := s.find(name)
	if !found {
		return 0, false
	}
	return s.slots[slot] - 1, true
}

// find returns the slot of a name, or the free one where it would be. There
// always is a free one.
func (s *nameSet) find(name []byte) (slot int, found bool) {
	n := uint64(len(s.slots))
	slot = int(maphash.Bytes(s.seed, name) >> 32 * n >> 32)
	for s.slots[slot] != 0 {
		if bytes.Equal(s.name(s.slots[slot]-1), name) {
			return slot, true
		}
		if slot++; slot == len(s.slots) {
			slot = 0
		}
	}
	return slot, false
}
