package message

import (
	"bytes"
	"sync/atomic"
)

const (
	// maxTemplates is how many templates of requests are kept.
	maxTemplates = 16
	// maxTemplate is the length in bytes of the longest request that is remembered.
	maxTemplate = 1 << 10
	// learnEach is after how many requests of other templates one is remembered, so
	// that a client which invents templates costs the others little.
	learnEach = 16
	// maxPlainID is the length in bytes of the longest id that takes another's place.
	maxPlainID = 64
)

// Templates remembers templates of requests, so that one which differs from an
// earlier one in nothing but its id need not be decoded: a client asks for a list
// in the same words each time. The zero value is ready; it may be used
// concurrently.
type Templates struct {
	templates [maxTemplates]atomic.Pointer[template]
	missed    atomic.Uint32
}

// template is a request without its id. It is immutable.
type template struct {
	before, after []byte
	request       Request
}

// Recall decodes a request that has one of the templates, and reports whether it
// has one. The slices of req may point to memory that others read too, so they
// must not be written to.
func (m *Templates) Recall(body []byte, req *Request) bool {
	for i := range m.templates {
		f := m.templates[i].Load()
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
// template.
func (m *Templates) Decode(body []byte, req *Request) error {
	err := Decode(body, req)
	if err == nil && worthRemembering(body, req) {
		m.learn(body)
	}
	return err
}

// worthRemembering reports whether another request may have this one's template.
func worthRemembering(body []byte, req *Request) bool {
	return req.ID != nil && req.Method != nil && !req.ExtraMembers && !req.ExtraParams && !req.UnsafeInteger &&
		req.Cursor == nil && req.URI == nil && len(body) <= maxTemplate
}

// learn remembers a request's template: in the first place that is free, or else,
// for a few of many, in the place of another.
func (m *Templates) learn(body []byte) {
	n := m.missed.Add(1)
	place := &m.templates[n/learnEach%maxTemplates]
	free := false
	for i := range m.templates {
		if m.templates[i].Load() == nil {
			place, free = &m.templates[i], true
			break
		}
	}
	if !free && n%learnEach != 0 {
		return
	}
	old := place.Load()
	if f := newTemplate(bytes.Clone(body)); f != nil {
		place.CompareAndSwap(old, f)
	}
}

// newTemplate takes the template of a request, whose bytes it keeps.
func newTemplate(body []byte) *template {
	f := new(template)
	end, err := decode(body, &f.request)
	if err != nil {
		return nil // cannot be: it has been decoded before
	}
	f.before, f.after = body[:end-len(f.request.ID)], body[end:]
	f.request.ID = nil
	return f
}

// read decodes a body if it has this template and an id that is written plainly.
// Then it is JSON just as the remembered one was, and says the same.
func (f *template) read(body []byte, req *Request) bool {
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
// id: a safe integer that is not negative, or a string of letters, digits, hyphens
// and underscores.
func isPlainID(id []byte) bool {
	if len(id) > maxPlainID {
		return false
	}
	if n := len(id); id[0] == '"' {
		return n > 1 && id[n-1] == '"' && all(id[1:n-1], isPlainChar)
	}
	return all(id, isDigit) && (id[0] != '0' || len(id) == 1) && isSafe(id)
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
