package message

import (
	"bytes"
	"strings"
)

// keyset is the known member names of one object. A name's index is its key.
type keyset [][]byte

func keys(names ...string) keyset {
	set := make(keyset, len(names))
	for i, name := range names {
		set[i] = []byte(name)
	}
	return set
}

// BeforeNUL returns a text as a parser reads it that is written in C.
func BeforeNUL(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return text
}

// nul is the byte that ends a string in C.
var nul = []byte{0}

// unknown is the key of a name that is not in a keyset.
const unknown = -1

// find returns the key of an unescaped name, or unknown. It reports false when
// the name is not a known one but some parser would take it for one. Such parsers
// ignore case: bytes.EqualFold covers what they do, "ſ" (U+017F) for s and the
// Kelvin sign (U+212A) for k included. Or they are written in C, where a NUL ends
// the name.
func (set keyset) find(name []byte) (key int, ok bool) {
	for key, known := range set {
		if bytes.Equal(known, name) {
			return key, true
		}
	}
	name, _, _ = bytes.Cut(name, nul)
	for key, known := range set {
		// No rune that folds to an ASCII letter is longer than three bytes.
		if len(known) <= len(name) && len(name) <= 3*len(known) && bytes.EqualFold(known, name) {
			return key, false
		}
	}
	return unknown, true
}

// seen is a set of keys.
type seen uint16

// add reports whether the key was not in the set, and adds it.
func (s *seen) add(key int) bool {
	bit := seen(1) << key
	if *s&bit != 0 {
		return false
	}
	*s |= bit
	return true
}

// remove has the key met for the first time once more.
func (s *seen) remove(key int) { *s &^= 1 << key }

func (s seen) has(key int) bool { return s&(1<<key) != 0 }
