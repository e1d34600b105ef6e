package message

import (
	"bytes"
	"fmt"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// itemTable says where the items of a JSON array are. Lists come with millions
// of items of a dozen bytes each, so an item must not cost much more here.
type itemTable struct {
	array   []byte   // as written
	starts  []uint32 // of the items, in the array
	lengths []uint32 // of the items
	names   []uint32 // where the items' names begin, in the array
	again   repeated // names that are there more than once
}

const (
	// leastItem is the size in bytes of the shortest item there can be, with a
	// comma.
	leastItem = len(`{"uri":"x"},`)
	// itemCost is what an item takes in a table and in a set of names, in bytes.
	itemCost = 3*4 + nameCost
	// maxSize is the largest list that offsets of four bytes reach into: 4 GiB.
	maxSize = math.MaxUint32
)

// TableSize returns how many bytes [ParsePage] needs at most for a message or a
// result, besides its bytes.
func TableSize(data []byte) int64 { return itemCost * int64(maxItems(data)) }

// maxItems returns how many items an array has at most: each is an object.
func maxItems(array []byte) int {
	return min(bytes.Count(array, []byte("{")), len(array)/leastItem+1)
}

func newItemTable(array []byte) *itemTable {
	n := maxItems(array)
	return &itemTable{
		array:  array,
		starts: make([]uint32, 0, n), lengths: make([]uint32, 0, n), names: make([]uint32, 0, n),
	}
}

// parse fills the table. The items have to be objects, each named by a non-empty
// string, the value of key.
func (t *itemTable) parse(key string) error {
	known := keys(key)
	names := newNameSet(cap(t.starts), t.name)
	s := scan(t.array)
	defer s.release()
	if err := s.open(jsontext.KindBeginArray, "the list is not an array"); err != nil {
		return err
	}
	for s.more() {
		item, err := s.value()
		if err != nil {
			return err
		}
		start, number := int(s.dec.InputOffset())-len(item), t.len()
		name, err := nameOffset(item, known)
		if err == nil {
			t.add(start, len(item), start+name)
			if !names.add(uint32(number)) {
				t.again.add(t.name(uint32(number)))
			}
		}
		if err != nil {
			return fmt.Errorf("%w, in item %d", err, number+1)
		}
	}
	return s.endOfInput()
}

// add adds an item. All offsets are within the array.
func (t *itemTable) add(start, length, name int) {
	t.starts = append(t.starts, uint32(start))
	t.lengths = append(t.lengths, uint32(length))
	t.names = append(t.names, uint32(name))
}

func (t *itemTable) len() int {
	if t == nil {
		return 0
	}
	return len(t.starts)
}

// item returns an item as written.
func (t *itemTable) item(i int) []byte {
	start := t.starts[i]
	end := start + t.lengths[i]
	return t.array[start:end:end]
}

// name returns the text of an item's name.
func (t *itemTable) name(i uint32) []byte { return unquote(leadingString(t.array[t.names[i]:])) }

// leadingString returns the raw JSON string that valid JSON begins with.
func leadingString(data []byte) []byte {
	end := 1
	for data[end] != '"' {
		if data[end] == '\\' {
			end++
		}
		end++
	}
	return data[: end+1 : end+1]
}

// nameOffset returns where in an item the value of its only known member begins:
// a string that is not empty. The item's other members may be anything: they are
// passed on as they are.
func nameOffset(item []byte, known keyset) (offset int, err error) {
	if !isObject(item) {
		return 0, invalid("no object")
	}
	s := scan(item)
	defer s.release()
	if err := s.enter(); err != nil {
		return 0, err
	}
	var before seen
	empty := true
	for s.more() {
		key, err := s.member(known, &before)
		if err != nil {
			return 0, err
		}
		value, err := s.value()
		if err != nil {
			return 0, err
		}
		if key == unknown {
			continue
		}
		if !isString(value) {
			return 0, invalid(string(known[key]) + " is not a string")
		}
		offset, empty = int(s.dec.InputOffset())-len(value), len(value) == len(`""`)
	}
	if empty {
		return 0, invalid("no " + string(known[0]))
	}
	return offset, nil
}

// nameOf returns the text of an item's name, nil if it has none that can be read.
func nameOf(item []byte, known keyset) []byte {
	offset, err := nameOffset(item, known)
	if err != nil {
		return nil
	}
	return unquote(leadingString(item[offset:]))
}
