package message

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// eachMember calls f for every member of a raw JSON object: with its key in
// known, its name with the quotes, and its value, both as written. No member may
// be repeated, nor differ from a known one in case only, nor may there be more than
// [maxMembers].
func eachMember(object []byte, known keyset, f func(key int, name, value []byte) error) error {
	s := scan(object)
	defer s.release()
	if err := s.open(jsontext.KindBeginObject, "not an object"); err != nil {
		return err
	}
	var names distinct
	for n := 1; s.more(); n++ {
		name, err := s.value()
		switch {
		case err != nil:
			return err
		case n > maxMembers:
			return invalid("an object has too many members")
		}
		text := unquote(name)
		key, ok := known.find(text)
		fresh := names.add(text)
		switch {
		case key != unknown && (!ok || !fresh):
			return ambiguous(known[key])
		case !fresh:
			return fmt.Errorf("%w: a member is repeated", ErrAmbiguous)
		}
		value, err := s.value()
		if err != nil {
			return err
		}
		if err := f(key, name, value); err != nil {
			return err
		}
	}
	return s.endOfInput()
}

// maxMembers is how many members an object of the protocol may have: their names are
// remembered, which would take many times the memory of the shortest ones.
const maxMembers = 4096

// distinct is the names of an object's members so far. Most objects have few.
type distinct struct {
	few  [12][]byte
	n    int
	many map[string]bool
}

// add reports whether the name is a new one, and adds it.
func (d *distinct) add(name []byte) bool {
	if d.many != nil {
		before := d.many[string(name)]
		d.many[string(name)] = true
		return !before
	}
	for _, other := range d.few[:d.n] {
		if string(other) == string(name) {
			return false
		}
	}
	if d.n < len(d.few) {
		d.few[d.n] = name
		d.n++
		return true
	}
	d.many = make(map[string]bool, 4*len(d.few))
	for _, other := range d.few {
		d.many[string(other)] = true
	}
	d.many[string(name)] = true
	return true
}

// eachElement calls f for every element of a raw JSON array, as written.
func eachElement(array []byte, f func(value []byte) error) error {
	s := scan(array)
	defer s.release()
	if err := s.open(jsontext.KindBeginArray, "not an array"); err != nil {
		return err
	}
	for s.more() {
		value, err := s.value()
		if err != nil {
			return err
		}
		if err := f(value); err != nil {
			return err
		}
	}
	return s.endOfInput()
}

// stringList returns the texts of a raw JSON array of strings.
func stringList(array []byte) ([]string, error) {
	var list []string
	err := eachElement(array, func(value []byte) error {
		if !isString(value) {
			return invalid("not an array of strings")
		}
		list = append(list, string(unquote(value)))
		return nil
	})
	return list, err
}
