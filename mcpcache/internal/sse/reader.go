// Package sse reads and writes event streams (WHATWG HTML, "Server-sent events", section 9.2). It
// also watches passing bytes for change notices.
//
// The package is pure: it knows nothing of HTTP, of Caddy or of time.
package sse

import (
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
	// Comment says that it is none, but a comment. See [Splitter].
	Comment bool
}

const (
	// readSize is how many bytes are read at a time.
	readSize = 4 << 10
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
	src   io.Reader
	split Splitter
	buf   []byte
	rest  []byte // of buf, not taken yet
	err   error  // of an earlier call
}

// NewReader returns a reader of the event stream r. No event may have more than
// maxEvent bytes of data.
func NewReader(r io.Reader, maxEvent int) *Reader {
	return &Reader{src: r, split: Splitter{MaxEvent: maxEvent}, buf: make([]byte, readSize)}
}

// Next returns the next event. At the end of the stream it returns io.EOF and
// drops an event whose blank line is missing. When an event is too large it
// returns an [ErrTooLarge]. All errors are final. IDs and reconnection times are
// not read.
func (r *Reader) Next() (Event, error) {
	for {
		if len(r.rest) > 0 {
			event, rest, found, err := r.split.Next(r.rest)
			if r.rest = rest; err != nil {
				r.rest, r.err = nil, err
				return Event{}, err
			}
			if found {
				return event, nil
			}
		}
		if r.err != nil {
			return Event{}, r.err
		}
		n, err := r.src.Read(r.buf)
		r.rest = r.buf[:n]
		if err == io.EOF {
			r.err = io.EOF
		} else if err != nil {
			r.err = fmt.Errorf("reading event stream: %w", err)
		}
	}
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
