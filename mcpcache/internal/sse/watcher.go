package sse

import "bytes"

// Watcher looks for notices in the body of an answer as it passes, however it
// is split and however loosely its messages are written. A notice is a message
// with the method of one, whatever its other members are. What only mentions
// one, such as text in a result, is none: that much all parsers agree on. The
// zero value watches for nothing until its format is set. It is not safe for
// concurrent use.
type Watcher struct {
	// Format is how the messages are written. It does not change once the first
	// bytes have been scanned.
	Format Format
	// Any says that every method is heard, not only those of notices, also one whose member's
	// name has a NUL behind it.
	Any bool
	// ID is called with each id of a message, as it is written, without space around it; of one of more than
	// 8 KiB, with its beginning. What has its name in other cases, or with a NUL behind it, is an id, too. nil:
	// ids are of no interest. It is not called for a [Format] of Unreadable.
	ID func(raw []byte)

	stream lines // as the standard reads it; of JSON, the messages alone
	// loose is the stream as it is read by those to whom only an LF ends a line,
	// from where the two differ; nil before that.
	loose *lines
	cr    bool // the last byte was a CR, and has not been looked at
}

var lineFeed, carriageReturn = []byte("\n"), []byte("\r")

// Scan calls heard with the method of each notice that is complete with this
// chunk, in order, and of each acknowledgement of a subscription. A stream whose
// lines end with a lone CR may have one notice reported twice. It allocates
// nothing, but once for such a stream, and for ids.
func (w *Watcher) Scan(chunk []byte, heard func(method string)) {
	w.stream.messages.any, w.stream.messages.id = w.Any, w.ID
	switch {
	case len(chunk) == 0:
	case w.Format == JSON:
		w.stream.messages.scan(chunk, heard)
	case w.Format == Stream:
		w.scanStream(chunk, heard)
	case w.Format == Unreadable:
		for _, method := range notices {
			heard(method)
		}
	}
}

// scanStream finds the first CR without an LF, from which on there are two
// ways to read the stream.
func (w *Watcher) scanStream(chunk []byte, heard func(method string)) {
	if w.loose != nil {
		w.scanBoth(chunk, heard)
		return
	}
	if w.cr {
		w.cr = false
		if chunk[0] != '\n' {
			w.diverge()
			w.scanBoth(carriageReturn, heard)
			w.scanBoth(chunk, heard)
			return
		}
		w.stream.scan(lineFeed, heard)
		chunk = chunk[1:]
	}
	for {
		end := bytes.IndexByte(chunk, '\r')
		if end < 0 {
			w.stream.scan(chunk, heard)
			return
		}
		w.stream.scan(chunk[:end], heard)
		chunk = chunk[end:]
		switch {
		case len(chunk) == 1:
			w.cr = true
			return
		case chunk[1] == '\n':
			w.stream.scan(lineFeed, heard) // CRLF is no more than that
			chunk = chunk[2:]
		default:
			w.diverge()
			w.scanBoth(chunk, heard)
			return
		}
	}
}

func (w *Watcher) diverge() {
	loose := w.stream
	loose.onlyLF = true
	loose.messages.raw = bytes.Clone(loose.messages.raw)
	w.loose = &loose
}

func (w *Watcher) scanBoth(chunk []byte, heard func(method string)) {
	w.stream.scan(chunk, heard)
	w.loose.scan(chunk, heard)
}
