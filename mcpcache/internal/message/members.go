package message

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// eachMember calls f for every member of a raw JSON object: with its key in
// known, its name with the quotes, and its value, both as written. No member may
// be repeated, nor differ from a known one in case only.
func eachMember(object []byte, known keyset, f func(key int, name, value []byte) error) error {
	s := scan(object)
	defer s.release()
	if err := s.open(jsontext.KindBeginObject, "not an object"); err != nil {
		return err
	}
	before := map[string]bool{}
	for s.more() {
		name, err := s.value()
		if err != nil {
			return err
		}
		text := unquote(name)
		key, ok := known.find(text)
		switch {
		case key != unknown && (!ok || before[string(text)]):
			return ambiguous(known[key])
		case before[string(text)]:
			return fmt.Errorf("%w: a member is repeated", ErrAmbiguous)
		}
		before[string(text)] = true
		value, err := s.value()
		if err != nil {
			return err
		}
		if err := f(key, name, value); err != nil {
			return err
		}
	}
	return s.end()
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
	return s.end()
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
