package message

import (
	"bytes"
	"sync/atomic"
)

const (
	// memoForms is how many forms of requests a Memo remembers.
	memoForms = 16
	// maxForm is the length in bytes of the longest request that is remembered.
	maxForm = 1 << 10
	// learnEach is after how many requests of other forms one is remembered, so
	// that a client which invents forms costs the others little.
	learnEach = 16
	// maxPlainID is the length in bytes of the longest id that takes another's place.
	maxPlainID = 64
)

// Memo remembers the forms of requests, so that one which differs from an
// earlier one in nothing but its id need not be decoded: a client asks for a list
// in the same words each time. The zero value is ready; it may be used
// concurrently.
type Memo struct {
	forms  [memoForms]atomic.Pointer[form]
	missed atomic.Uint32
}

// form is a request without its id. It is immutable.
type form struct {
	before, after []byte
	request       Request
}

// Recall decodes a request that has a remembered form, and reports whether it
// has one. The slices of req may point to memory that others read too, so they
// must not be written to.
func (m *Memo) Recall(body []byte, req *Request) bool {
	for i := range m.forms {
		f := m.forms[i].Load()
		if f == nil {
			break // the next ones are not taken either
		}
		if f.read(body, req) {
			return true
		}
	}
	return false
}

// Decode is [Decode] for a request that cannot be recalled, and remembers its
// form.
func (m *Memo) Decode(body []byte, req *Request) error {
	err := Decode(body, req)
	if err == nil && worthRemembering(body, req) {
		m.learn(body)
	}
	return err
}

// worthRemembering reports whether another request may have this one's form.
func worthRemembering(body []byte, req *Request) bool {
	return req.ID != nil && req.Method != nil && !req.ExtraMembers && !req.ExtraParams &&
		req.Cursor == nil && req.URI == nil && len(body) <= maxForm
}

// learn remembers a request's form: in the first place that is free, or else,
// for a few of many, in the place of another.
func (m *Memo) learn(body []byte) {
	n := m.missed.Add(1)
	place := &m.forms[n/learnEach%memoForms]
	free := false
	for i := range m.forms {
		if m.forms[i].Load() == nil {
			place, free = &m.forms[i], true
			break
		}
	}
	if !free && n%learnEach != 0 {
		return
	}
	old := place.Load()
	if f := newForm(bytes.Clone(body)); f != nil {
		place.CompareAndSwap(old, f)
	}
}

// newForm takes the form of a request, whose bytes it keeps.
func newForm(body []byte) *form {
	f := new(form)
	end, err := decode(body, &f.request)
	if err != nil {
		return nil // cannot be: it has been decoded before
	}
	f.before, f.after = body[:end-len(f.request.ID)], body[end:]
	f.request.ID = nil
	return f
}

// read decodes a body if it has this form and an id that is written plainly.
// Then it is JSON just as the remembered one was, and says the same.
func (f *form) read(body []byte, req *Request) bool {
	end := len(body) - len(f.after)
	if end <= len(f.before) || !bytes.Equal(body[end:], f.after) || !bytes.Equal(body[:len(f.before)], f.before) {
		return false
	}
	id := body[len(f.before):end:end]
	if !isPlainID(id) {
		return false
	}
	*req = f.request
	req.ID = id
	return true
}

// isPlainID reports whether bytes are certainly one JSON value that can be an
// id: an integer that is not negative, or a string of letters, digits, hyphens
// and underscores.
func isPlainID(id []byte) bool {
	if len(id) > maxPlainID {
		return false
	}
	if n := len(id); id[0] == '"' {
		return n > 1 && id[n-1] == '"' && all(id[1:n-1], isPlainChar)
	}
	return all(id, isDigit) && (id[0] != '0' || len(id) == 1)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isPlainChar(c byte) bool {
	lower := c | 0x20
	return isDigit(c) || 'a' <= lower && lower <= 'z' || c == '-' || c == '_'
}

func all(text []byte, is func(byte) bool) bool {
	for _, c := range text {
		if !is(c) {
			return false
		}
	}
	return true
}
