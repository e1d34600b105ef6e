package message

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner walks through one JSON text without copying it. Every slice it
// returns points into the text, but unescaped names.
type scanner struct {
	text  []byte
	src   bytes.Buffer // of text; the decoder parses it in place
	dec   jsontext.Decoder
	name  [256]byte // scratch for a name with escapes
	idEnd int       // where a request's id ends in the text; 0 before it is met
}

// scanners holds scanners that are reset and point to no text.
var scanners = sync.Pool{New: func() any {
	s := new(scanner)
	s.reset()
	return s
}}

// scan returns a scanner at the beginning of text. It must be released.
func scan(text []byte) *scanner {
	s := scanners.Get().(*scanner)
	s.begin(text)
	return s
}

// scanLeniently is scan for what passes as it is written: strings may have halves of surrogate
// pairs, and bytes that are not UTF-8.
func scanLeniently(text []byte) *scanner {
	s := scan(text)
	s.dec.Reset(&s.src, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return s
}

func (s *scanner) begin(text []byte) {
	s.text = text
	s.src = *bytes.NewBuffer(text)
}

// release gives the scanner back, without the text.
func (s *scanner) release() {
	s.reset()
	scanners.Put(s)
}

// reset lets go of the text. Duplicate names are allowed in the decoder because
// its own check costs a hash table of every object; the objects whose names
// matter are checked here.
func (s *scanner) reset() {
	s.text, s.idEnd = nil, 0
	s.src = bytes.Buffer{}
	s.dec.Reset(&s.src, jsontext.AllowDuplicateNames(true))
}

// kind returns the kind of the next token, 0 when there is none.
func (s *scanner) kind() jsontext.Kind { return s.dec.PeekKind() }

// value reads a whole value and returns it as written.
func (s *scanner) value() ([]byte, error) {
	v, err := s.dec.ReadValue()
	if err != nil {
		return nil, malformed(err)
	}
	end := int(s.dec.InputOffset())
	return s.text[end-len(v) : end : end], nil
}

// enter reads the opening delimiter of an object or array, which is next.
func (s *scanner) enter() error {
	if _, err := s.dec.ReadToken(); err != nil {
		return malformed(err)
	}
	return nil
}

// unexpected returns an error for a next value of the wrong kind: what is wrong
// with its syntax, or else the reason.
func (s *scanner) unexpected(reason string) error {
	if _, err := s.value(); err != nil {
		return err
	}
	return invalid(reason)
}

// open enters the next value, an object or array. If it is of another kind, the
// error is that of [scanner.unexpected].
func (s *scanner) open(kind jsontext.Kind, reason string) error {
	if s.kind() != kind {
		return s.unexpected(reason)
	}
	return s.enter()
}

// more reports whether the object or array has another member or element; when
// it has none, its end is read. After a syntax error it reports true: the next
// read returns the error.
func (s *scanner) more() bool {
	kind := s.dec.PeekKind()
	if kind != jsontext.KindEndObject && kind != jsontext.KindEndArray {
		return true
	}
	_, err := s.dec.ReadToken()
	return err != nil
}

// member reads a member's name and returns its key in known. The name of a key
// that was seen before or that differs in case is an [ErrAmbiguous].
func (s *scanner) member(known keyset, before *seen) (key int, err error) {
	name, err := s.value()
	if err != nil {
		return unknown, err
	}
	key, ok := known.find(s.unescape(name))
	if key == unknown {
		return unknown, nil
	}
	if !ok || !before.add(key) {
		return unknown, ambiguous(known[key])
	}
	return key, nil
}

// eachOf calls f for each member of the object that has to be next: with its key
// in known, before its value, which f has to read.
func (s *scanner) eachOf(known keyset, otherwise string, f func(key int) error) (before seen, err error) {
	if err := s.open(jsontext.KindBeginObject, otherwise); err != nil {
		return before, err
	}
	for s.more() {
		key, err := s.member(known, &before)
		if err == nil {
			err = f(key)
		}
		if err != nil {
			return before, err
		}
	}
	return before, nil
}

// each calls f before each element of the array that has to be next. It has to
// read the element.
func (s *scanner) each(otherwise string, f func() error) error {
	if err := s.open(jsontext.KindBeginArray, otherwise); err != nil {
		return err
	}
	for s.more() {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// unescape returns the text of a name in quotes. It is valid until the next
// call.
func (s *scanner) unescape(name []byte) []byte {
	inner := name[1 : len(name)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	text, err := jsontext.AppendUnquote(s.name[:0], name)
	if err != nil {
		return inner // cannot be: the decoder has accepted it
	}
	return text
}

// endOfInput checks that only white space follows.
func (s *scanner) endOfInput() error {
	for _, c := range s.text[s.dec.InputOffset():] {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return invalid("data after the message")
		}
	}
	return nil
}

// Text returns the text of a raw JSON string that [Decode] has found.
func Text(raw []byte) string { return string(unquote(raw)) }

// unquote returns the text of a raw JSON string that the decoder has accepted.
// It allocates only if the string has escapes.
func unquote(raw []byte) []byte {
	if inner := raw[1 : len(raw)-1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	text, err := jsontext.AppendUnquote([]byte{}, raw)
	if err != nil {
		return []byte{} // cannot be: the decoder has accepted it
	}
	return text
}
