package sse

import "bytes"

// notices are the methods of change notices.
var notices = [...]string{
	"notifications/tools/list_changed",
	"notifications/prompts/list_changed",
	"notifications/resources/list_changed",
	"notifications/resources/updated",
}

// Acknowledged is the method of the first message on a subscription: the server
// listens for changes from now on.
const Acknowledged = "notifications/subscriptions/acknowledged"

var methodName, idName = []byte("method"), []byte("id")

// messages looks for the methods of notices in JSON: one message, or an array
// of them. It keeps track of strings and brackets and of no more, so that it
// understands whatever any parser accepts: repeated names, names in another
// case, NaN, broken UTF-8. The zero value is at the beginning of the text.
type messages struct {
	any   bool             // every method is of interest
	id    func(raw []byte) // is called with each id; nil: none is of interest
	depth int              // of open brackets
	// level is the depth at which the members of messages are: 2 in an array.
	level int

	inString bool
	escape   int  // bytes of an escape that have been read, with the backslash
	code     rune // of a \u escape, as far as it has been read

	value   bool // the next string would be a member's value, not its name
	method  bool // that member is the method
	isID    bool // that member is the id, which is of interest
	reading bool // the string is a name or a method: text is filled
	text    [len(Acknowledged) + 1]byte
	n       int    // the bytes of text
	raw     []byte // of the id, as far as it has been read
}

// maxID is how much is kept of an id, in bytes as written: more than [message.MaxID].
const maxID = 8 << 10

// scan reads on.
func (m *messages) scan(b []byte, heard func(method string)) {
	for len(b) > 0 {
		switch {
		case !m.inString:
			b = m.between(b)
		case m.escape > 0:
			m.keep(b[:1])
			m.unescape(b[0])
			b = b[1:]
		case m.reading:
			m.read(b[0], heard)
			b = b[1:]
		default:
			rest := m.skip(b)
			m.keep(b[:len(b)-len(rest)])
			b = rest
		}
	}
}

// between reads what is no string, up to the next one's first quote.
func (m *messages) between(b []byte) []byte {
	value := 0 // where a value begins, or goes on
	for i, c := range b {
		if !structural[c] {
			continue
		}
		switch c {
		case '"':
			m.keep(b[value : i+1])
			m.inString, m.n = true, 0
			m.reading = m.depth == m.level && m.depth > 0 && (!m.value || m.method)
			return b[i+1:]
		case '{', '[':
			m.open(c)
		case '}', ']':
			m.endID(b[value:i])
			m.depth = max(m.depth-1, 0)
		default:
			if m.depth == m.level {
				m.endID(b[value:i])
				m.value, value = c == ':', i+1
				m.method = m.method && m.value
			}
		}
	}
	m.keep(b[value:])
	return nil
}

// keep keeps a part of the value that is read, if it is that of an id.
func (m *messages) keep(p []byte) {
	if m.isID && m.value {
		m.raw = append(m.raw, p[:min(len(p), maxID-len(m.raw))]...)
	}
}

// endID takes the last part of the value that is read, if it is that of an id.
func (m *messages) endID(p []byte) {
	if m.isID && m.value && m.depth == m.level {
		m.keep(p)
		m.id(bytes.TrimSpace(m.raw))
		m.isID, m.raw = false, m.raw[:0]
	}
}

// structural are the bytes that matter between strings.
var structural = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true, ':': true, ',': true}

func (m *messages) open(bracket byte) {
	if m.depth == 0 {
		m.level = 1
		if bracket == '[' {
			m.level = 2
		}
	}
	m.depth++
	if m.depth == m.level {
		m.value, m.method, m.isID = false, false, false
	}
}

// skip passes over a string of no interest, up to its end or to an escape.
func (m *messages) skip(b []byte) []byte {
	n := indexEither(b, '"', '\\')
	if n == len(b) {
		return nil
	}
	if b[n] == '"' {
		m.inString = false
	} else {
		m.escape = 1
	}
	return b[n+1:]
}

// unescape reads on in an escape.
func (m *messages) unescape(c byte) {
	m.escape++
	switch {
	case m.escape == 2 && c == 'u' && m.reading:
		m.code = 0
		return
	case m.escape == 2:
		if c != '/' {
			c = 0 // no method has any of the others
		}
		m.add(c)
	default:
		m.code = m.code<<4 | hex(c)
		if m.escape < len(`\u0000`) {
			return
		}
		if m.code >= 0x80 {
			m.code = 0
		}
		m.add(byte(m.code))
	}
	m.escape = 0
}

// hex returns the value of a hexadecimal digit. What is none is so large that
// the whole code is.
func hex(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	}
	return 1 << 16
}

// read reads a byte of a name or method.
func (m *messages) read(c byte, heard func(method string)) {
	switch c {
	case '\\':
		m.escape = 1
	case '"':
		m.inString = false
		m.endMessage(heard)
	default:
		m.add(c)
	}
}

// add keeps a character of a name or method. Of one that is too long, it keeps
// so much that it equals no other.
func (m *messages) add(c byte) {
	if m.n < len(m.text) {
		m.text[m.n] = c
		m.n++
	}
}

func (m *messages) endMessage(heard func(method string)) {
	text := m.text[:m.n]
	if m.any || m.id != nil {
		text, _, _ = bytes.Cut(text, []byte{0})
	}
	switch {
	case !m.value:
		m.method = bytes.EqualFold(text, methodName)
		m.isID = m.id != nil && bytes.EqualFold(text, idName)
		return
	case m.any:
		heard(string(text))
		return
	}
	for _, notice := range notices {
		if string(m.text[:m.n]) == notice {
			heard(notice)
		}
	}
	if string(m.text[:m.n]) == Acknowledged {
		heard(Acknowledged)
	}
}
