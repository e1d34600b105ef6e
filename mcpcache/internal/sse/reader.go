// Package sse reads and writes event streams (WHATWG HTML, "Server-sent
// events", section 9.2) and watches bytes that pass for change notices.
//
// The package is pure: it knows nothing of HTTP, of Caddy or of time.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge says that one event of a stream is larger than the reader allows.
var ErrTooLarge = errors.New("event is too large")

// Event is one event of a stream.
type Event struct {
	Name string // "message" when the event has no name
	Data []byte // lines joined by \n; valid until the next call of Next
}

const (
	// keptBuffer is the largest buffer that is kept from event to event.
	keptBuffer = 64 << 10
	// lineOverhead is what a line may hold besides data: a field name, a colon,
	// a space and a byte order mark.
	lineOverhead = 16
)

var bom = []byte("\xef\xbb\xbf")

// Reader reads an event stream. An event is returned as soon as the blank line
// after it has begun, however the line ends.
type Reader struct {
	src      *bufio.Reader
	maxEvent int
	err      error // of an earlier call

	line   []byte // of the line that is being read
	skipLF bool   // the last line ended in CR, so that LF would belong to it
	begun  bool   // the first line has been read

	name string
	data []byte // with a \n after each line
}

// NewReader returns a reader of the event stream r. No event may have more than
// maxEvent bytes of data.
func NewReader(r io.Reader, maxEvent int) *Reader {
	return &Reader{src: bufio.NewReader(r), maxEvent: maxEvent}
}

// Next returns the next event. At the end of the stream it returns io.EOF and
// drops an event whose blank line is missing. When an event is too large it
// returns an [ErrTooLarge]. All errors are final. IDs and reconnection times are
// not read.
func (r *Reader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	r.name, r.data = "", kept(r.data)
	for {
		line, err := r.readLine()
		if err != nil {
			r.err = err
			return Event{}, err
		}
		if len(line) > 0 {
			if err := r.field(line); err != nil {
				r.err = err
				return Event{}, err
			}
			continue
		}
		if len(r.data) > 0 {
			if r.name == "" {
				r.name = "message"
			}
			return Event{Name: r.name, Data: r.data[:len(r.data)-1]}, nil
		}
		r.name = ""
	}
}

// field handles a line that is not blank. A comment is a field without a name.
func (r *Reader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if len(r.data)+len(value) > r.maxEvent {
			return ErrTooLarge
		}
		r.data = append(append(r.data, value...), '\n')
	case "event":
		r.name = string(value)
	}
	return nil
}

// readLine returns the next line without its end, which is LF, CRLF or CR. An
// LF after a CR is skipped only with the next line: waiting for it could take
// forever.
func (r *Reader) readLine() ([]byte, error) {
	r.line = kept(r.line)
	for {
		if _, err := r.src.Peek(1); err != nil {
			if err == io.EOF {
				return nil, io.EOF
			}
			return nil, fmt.Errorf("reading event stream: %w", err)
		}
		// Peek of what is buffered cannot fail.
		buffered, _ := r.src.Peek(r.src.Buffered())
		if r.skipLF {
			r.skipLF = false
			if buffered[0] == '\n' {
				r.discard(1)
				continue
			}
		}
		n := lineEnd(buffered)
		if len(r.line)+n > r.maxEvent+lineOverhead {
			return nil, ErrTooLarge
		}
		r.line = append(r.line, buffered[:n]...)
		if n == len(buffered) {
			r.discard(n)
			continue
		}
		r.skipLF = buffered[n] == '\r'
		r.discard(n + 1)
		return r.trimBOM(r.line), nil
	}
}

// discard drops bytes that are buffered, which cannot fail.
func (r *Reader) discard(n int) { _, _ = r.src.Discard(n) }

// trimBOM drops a byte order mark from the first line of the stream.
func (r *Reader) trimBOM(line []byte) []byte {
	if r.begun {
		return line
	}
	r.begun = true
	return bytes.TrimPrefix(line, bom)
}

// lineEnd returns the index of the first CR or LF, or else the length.
func lineEnd(b []byte) int { return indexEither(b, '\n', '\r') }

// indexEither returns the index of the first x or y, or else the length. The
// time it takes goes with that index: looking for one of them through all of b,
// again and again, would take forever where only the other is met.
func indexEither(b []byte, x, y byte) int {
	for at, size := 0, 16; at < len(b); at, size = at+size, 2*size {
		part := b[at:min(at+size, len(b))]
		n := len(part)
		if i := bytes.IndexByte(part, x); i >= 0 {
			n = i
		}
		if i := bytes.IndexByte(part[:n], y); i >= 0 {
			n = i
		}
		if n < len(part) {
			return at + n
		}
	}
	return len(b)
}

// kept returns buf emptied, or nothing when it has grown large.
func kept(buf []byte) []byte {
	if cap(buf) > keptBuffer {
		return nil
	}
	return buf[:0]
}
