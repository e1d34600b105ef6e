package responsefilter

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// stream passes on the events that have ended, filtered, and holds back the rest.
func (w *Writer) stream(p []byte) error {
	for len(p) > 0 {
		n, ended := w.event.add(p)
		p = p[n:]
		switch size := int64(w.event.size()); {
		case w.event.cut || size > w.Limit || !w.room(size):
			if err := w.writeTooLarge(); err != nil {
				return err
			}
		case ended:
			if err := w.writeEvent(); err != nil {
				return err
			}
		case w.event.isLongResponse(w.Glance):
			w.watch(sse.Stream)
			if err := w.passOn(w.event.passOn()); err != nil {
				return err
			}
		}
		if ended {
			w.event.reset()
			w.letGo()
		}
	}
	return nil
}

// writeTooLarge passes on what there is of an event that is too large, if it may be. One
// that there is merely no room for is looked at first: it may be a notice.
func (w *Writer) writeTooLarge() error {
	noRoom := !w.event.cut && int64(w.event.size()) <= w.Limit
	if !w.Lenient || noRoom && message.MayShowItems(w.event.raw) || w.Glance > 0 && !w.event.cut {
		return ErrTooLarge
	}
	return w.passOn(w.event.passOn())
}

// watch has what is passed on from now on be looked at.
func (w *Writer) watch(f sse.Format) {
	w.passing = sse.Watcher{Format: f, Any: true}
	if w.Other != nil {
		w.passing.ID = func(id []byte) { w.strange = w.strange || w.Other(id) }
	}
}

// passOn passes on a part of an event or of an answer as it comes. It is an error if a response turns out
// to have a method, as it is none to some parsers then, or the id of another request.
func (w *Writer) passOn(part []byte) error {
	w.passing.Scan(part, func(string) { w.strange = true })
	if w.strange {
		return fmt.Errorf("%w: a response has a method, or another request's id", ErrUnreadable)
	}
	w.pass()
	_, err := w.below.Write(part)
	return err
}

// writeEvent passes on what is left of an event. One that cannot be read goes as it is,
// such as a server's word that it is still there, but for what may show an item.
func (w *Writer) writeEvent() error {
	filtered, err := w.event.filter(w.Filter)
	switch raw := w.event.raw; {
	case err != nil && (message.MayShowItems(raw) || !w.Lenient && !isText(raw)):
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	case err != nil:
		filtered = w.event.raw
	}
	if len(filtered) == 0 {
		return nil
	}
	w.pass()
	_, err = w.below.Write(filtered)
	return err
}

// isText reports whether nobody takes a text for one of another character set.
func isText(text []byte) bool { return utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 }

// room takes from the memory what an event of that size needs.
func (w *Writer) room(size int64) bool {
	if size <= max(w.taken, leastEvent) {
		return true
	}
	more := 2*size - w.taken
	w.taken += more
	return w.share.Grow(more)
}

// leastEvent is how many bytes of an event are held back without being taken from the
// memory. Buffers of a connection are as long, and a notice, which must not get through
// for want of memory, is shorter.
const leastEvent = 4 << 10

// letGo gives back the room of an event that was passed on: a stream may be open for
// long, and many may be, of which few have anything to hold back.
func (w *Writer) letGo() {
	w.share.Release()
	w.taken = 0
	if cap(w.event.raw) > leastEvent {
		w.event.raw = nil
	}
}
