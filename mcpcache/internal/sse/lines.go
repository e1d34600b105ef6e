package sse

import "bytes"

// lines follows the lines of an event stream and hands what they hold as data
// on to messages. The zero value is at the beginning of a stream.
type lines struct {
	// onlyLF says that a CR is no line end, which is how some SDKs read.
	onlyLF bool

	at place
	// matched is how many bytes of a byte order mark or of the field's name
	// have been read.
	matched int
	skipLF  bool // the line ended with a CR

	messages messages
}

// place is where in a line the next byte is.
type place uint8

const (
	inMark  place = iota // the beginning of the stream
	inName               // of a field, or at the beginning of a line
	inSpace              // right after the colon
	inData               // the value of a data field
	inOther              // anything else, up to the end of the line
)

const dataField = "data"

// scan reads on. A message ends with its event, at a blank line.
func (l *lines) scan(b []byte, heard func(method string)) {
	for len(b) > 0 {
		switch l.at {
		case inData:
			n := l.lineEnd(b)
			l.messages.scan(b[:n], heard)
			b = b[n:]
		case inOther:
			b = b[l.lineEnd(b):]
		case inMark, inName, inSpace:
		}
		if len(b) > 0 {
			b = l.step(b)
		}
	}
}

func (l *lines) lineEnd(b []byte) int {
	if l.onlyLF {
		if n := bytes.IndexByte(b, '\n'); n >= 0 {
			return n
		}
		return len(b)
	}
	return lineEnd(b)
}

// step takes in the first byte of b, if it belongs there, and returns the rest.
func (l *lines) step(b []byte) []byte {
	c := b[0]
	skip := l.skipLF
	l.skipLF = false
	switch {
	case c == '\n' && skip:
		return b[1:]
	case c == '\n', c == '\r' && !l.onlyLF:
		l.skipLF = c == '\r'
		l.endLine()
		return b[1:]
	}
	switch l.at {
	case inMark:
		if c == bom[l.matched] {
			if l.matched++; l.matched == len(bom) {
				l.at, l.matched = inName, 0
			}
			return b[1:]
		}
		if l.at = inName; l.matched > 0 {
			l.at = inOther
		}
		l.matched = 0
	case inName:
		l.name(c)
		return b[1:]
	case inSpace:
		if l.at = inData; c == ' ' {
			return b[1:]
		}
	case inData, inOther: // as far as scan has left them
	}
	return b
}

// name takes in a byte of a field's name, or the colon after it.
func (l *lines) name(c byte) {
	switch {
	case c == ':' && l.matched == len(dataField):
		l.at = inSpace
	case l.matched < len(dataField) && c == dataField[l.matched]:
		l.matched++
	case c == '\r' && l.matched == 0: // to be trimmed from a blank line
	default:
		l.at = inOther
	}
}

func (l *lines) endLine() {
	if l.matched == 0 && (l.at == inName || l.at == inMark) {
		l.messages = messages{any: l.messages.any, id: l.messages.id}
	}
	l.at, l.matched = inName, 0
}
