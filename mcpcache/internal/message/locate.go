package message

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// locate returns where the value is that is found at a path of members in an object: it
// begins at the offset start and ends before end. Both are 0 if there is none. No member
// on the path may be repeated, nor be there in another case or with a NUL behind it.
func locate(object []byte, path ...string) (start, end int, err error) {
	s := scan(object)
	defer s.release()
	if err = s.locate(path, &start, &end); err == nil {
		err = s.endOfInput()
	}
	return start, end, err
}

func (s *scanner) locate(path []string, start, end *int) error {
	_, err := s.eachOf(keys(path[0]), "not an object", func(key int) error {
		if key != unknown && len(path) > 1 {
			return s.locate(path[1:], start, end)
		}
		value, err := s.value()
		if err == nil && key != unknown {
			*end = int(s.dec.InputOffset())
			*start = *end - len(value)
		}
		return err
	})
	return err
}

// StringAt returns the text of the string that is found at a path of members in an object,
// "" if there is none.
func StringAt(object []byte, path ...string) string {
	start, end, err := locate(object, path...)
	if err != nil || end == 0 || !isString(object[start:end]) {
		return ""
	}
	return string(unquote(object[start:end]))
}

// WithString returns an object with another string in the place of that at a path of
// members, and all else as written. There has to be one.
func WithString(object []byte, text string, path ...string) ([]byte, error) {
	start, end, err := locate(object, path...)
	switch {
	case err != nil:
		return nil, err
	case end == 0 || !isString(object[start:end]):
		return nil, invalid("no string to replace")
	}
	quoted, _ := jsontext.AppendQuote(nil, text) // invalid UTF-8 was replaced when it was read
	return slices.Concat(object[:start], quoted, object[end:]), nil
}

// WithValue returns an object with another raw value in the place of that at a path of
// members, and all else as written. Of the members on the path only the last may be missing:
// it is then the first one of its object.
func WithValue(object, value []byte, path ...string) ([]byte, error) {
	start, end, err := locate(object, path...)
	switch {
	case err != nil:
		return nil, err
	case end != 0:
		return slices.Concat(object[:start], value, object[end:]), nil
	}
	last := len(path) - 1
	if start, end = 0, len(object); last > 0 {
		if start, end, err = locate(object, path[:last]...); err != nil {
			return nil, err
		}
	}
	inner := bytes.TrimLeft(object[start:end], space)
	if len(inner) == 0 || !isObject(inner) {
		return nil, invalid("no object for a member")
	}
	at := end - len(inner) + len("{")
	member, _ := jsontext.AppendQuote(nil, path[last]) // a name of ours
	member = append(append(member, ':'), value...)
	if rest := bytes.TrimLeft(object[at:], space); rest[0] != '}' {
		member = append(member, ',')
	}
	return slices.Concat(object[:at], member, object[at:]), nil
}

// Around returns what is before and after the value at a path of members in an object. There has to be one.
func Around(object []byte, path ...string) (before, after []byte, err error) {
	start, end, err := locate(object, path...)
	switch {
	case err != nil:
		return nil, nil, err
	case end == 0:
		return nil, nil, invalid("no " + path[len(path)-1])
	}
	return object[:start:start], object[end:], nil
}

// space is what is white space in JSON (RFC 8259 section 2).
const space = " \t\r\n"

// Without returns an object without members of those names, and those that are left as
// written.
func Without(object []byte, names ...string) ([]byte, error) {
	without := []byte{'{'}
	err := eachMember(object, keys(names...), func(key int, name, value []byte) error {
		if key == unknown {
			if len(without) > 1 {
				without = append(without, ',')
			}
			without = append(append(append(without, name...), ':'), value...)
		}
		return nil
	})
	return append(without, '}'), err
}

// WithPrefix returns an item with a prefix before its name, and all else as written. The
// prefix has to be what needs no escapes.
func WithPrefix(item []byte, prefix string) ([]byte, error) {
	start, end, err := locate(item, "name")
	switch {
	case err != nil:
		return nil, err
	case end == 0 || !isString(item[start:end]):
		return nil, invalid("no name")
	}
	return slices.Concat(item[:start+1], []byte(prefix), item[start+1:]), nil
}

// ValueAt returns the raw value at a path of members in an object.
func ValueAt(object []byte, path ...string) (value []byte, ok bool) {
	start, end, err := locate(object, path...)
	return object[start:end], err == nil && end != 0
}
