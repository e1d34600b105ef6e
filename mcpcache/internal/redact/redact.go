// Package redact hides secrets in texts that somebody else has written. An upstream may repeat the
// credential that it was sent. A token endpoint may repeat the client's secret. They repeat a
// secret as it was, or as URLs, JSON, HTML or base64 write it, and in parts of such forms. Base64
// may have line breaks in it, with indentation.
//
// The package does not find other forms, such as base64 of base64, hexadecimal digits, or a
// content coding.
package redact

import (
	"encoding/base64"
	"slices"
	"strings"
)

// mark stands for a secret in a text.
const mark = "[hidden]"

// leastFragment is the length from which base64 text is looked for. Shorter
// text could be a part of any word.
const leastFragment = 12

// Secrets are texts to be hidden. The nil Secrets hide nothing.
type Secrets struct {
	begins [256][]*pattern // those that can begin with a byte
}

// New returns the secrets to hide. Empty ones do not count; without any it
// returns nil.
func New(secrets ...string) *Secrets {
	var plain, base64 []string
	for _, secret := range secrets {
		if secret != "" {
			plain, base64 = append(plain, secret), append(base64, fragments(secret)...)
		}
	}
	if len(plain) == 0 {
		return nil
	}
	s := new(Secrets)
	s.add(plain, false)
	s.add(base64, true)
	return s
}

// add adds texts to be hidden, with line breaks in them if they are broken.
func (s *Secrets) add(texts []string, broken bool) {
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) {
		p := newPattern(text, broken)
		for b := range s.begins {
			if p.begins(byte(b)) {
				s.begins[b] = append(s.begins[b], p)
			}
		}
	}
}

// fragments are what base64 makes of a secret, wherever that begins within
// three bytes: the characters that depend on the secret alone.
func fragments(secret string) (found []string) {
	for before, skip := range []int{0, 2, 3} {
		whole := []byte(strings.Repeat("\x00", before) + secret)
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString(whole)
			if len(whole)%3 != 0 {
				text = text[:len(text)-1]
			}
			if len(text)-skip >= leastFragment {
				found = append(found, text[skip:])
			}
		}
	}
	return found
}

// Text returns the text with [hidden] instead of the secrets. It must not have
// been cut: half a secret would not be found.
func (s *Secrets) Text(text string) string {
	if s == nil {
		return text
	}
	clean, _ := s.scan([]byte(text), true, func(to []byte, _ int) []byte { return append(to, mark...) })
	return string(clean)
}

// Texts is [Secrets.Text] of each of some texts, which stay as they are.
func (s *Secrets) Texts(texts []string) []string {
	if s == nil {
		return texts
	}
	clean := make([]string, len(texts))
	for i, text := range texts {
		clean[i] = s.Text(text)
	}
	return clean
}

// Error returns an error whose text hides the secrets, and which wraps err.
func (s *Secrets) Error(err error) error {
	if s == nil || err == nil {
		return err
	}
	text := err.Error()
	if clean := s.Text(text); clean != text {
		return &hiding{text: clean, cause: err}
	}
	return err
}

// hiding is an error without the secrets in the text of its cause.
type hiding struct {
	text  string
	cause error
}

func (e *hiding) Error() string { return e.text }

func (e *hiding) Unwrap() error { return e.cause }

// scan returns the text with the secrets replaced. Unless the text is whole,
// what may be the beginning of a secret at its end is held back.
func (s *Secrets) scan(text []byte, whole bool, replace func(to []byte, length int) []byte) (clean, held []byte) {
	done := 0 // how much of text is in clean
	for i := 0; i < len(text); i++ {
		if s.begins[text[i]] == nil {
			continue
		}
		n, more := s.match(text[i:])
		switch {
		case more && !whole:
			return append(clean, text[done:i]...), text[i:]
		case n > 0:
			clean = replace(append(clean, text[done:i]...), n)
			done = i + n
			i = done - 1
		}
	}
	if done == 0 {
		return text, nil
	}
	return append(clean, text[done:]...), nil
}

// match returns the length of the longest secret with which the text begins,
// in any form. more says that one may be longer than the text.
func (s *Secrets) match(text []byte) (length int, more bool) {
	for _, p := range s.begins[text[0]] {
		n, short := p.match(text)
		length, more = max(length, n), more || short
	}
	return length, more
}
