// Package responsefilter takes hidden parts out of a server's answer on its way to a client. It
// holds back the bytes that it has to read first: a JSON answer as a whole, an event stream event
// by event. It knows nothing of requests and of who may see what.
package responsefilter

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// Errors of [Writer.Finish].
var (
	// ErrTooLarge says that an answer, or one event, is larger than allowed, or than
	// there is room for.
	ErrTooLarge = errors.New("answer is larger than max_list, or than memory has room for")
	// ErrUnreadable says that nobody can be certain what is in an answer.
	ErrUnreadable = errors.New("answer cannot be read, to be filtered")
)

// Notice is the [Options.Glance] of answers in which there should be no list, in bytes.
const Notice = 4 << 10

// Options say what a [Writer] filters, and how much it may hold back.
type Options struct {
	// Filter returns what is left of a message, which is the same slice if it is not changed,
	// and nil if nothing is: see [github.com/caddy-mcp/mcp-cache/mcpcache/internal/message.Filter.Apply] for its
	// errors.
	Filter func(data []byte) ([]byte, error)
	// Whole says that the answer may be JSON with a list in it.
	Whole bool
	// Get says that the answer is to a GET of the endpoint: some clients read it as an
	// event stream whatever its type.
	Get bool
	// Lenient says that there should be no list in the answer: events that are too
	// large go as they are, and those that cannot be read, but for what may be a list
	// or a notice all the same.
	Lenient bool
	// Glance is the size in bytes from which an event, or a JSON answer, that begins as a
	// response goes as it is, as it comes; all others are held back until they are whole, and
	// are never passed on without that. 0: no event is looked at, and JSON only with Whole.
	// Only with Lenient.
	Glance int64
	// Other reports whether a raw id is that of another request: what goes as it comes must
	// not have one. nil: it may have any.
	Other func(id []byte) bool
	// Limit is how large an answer or an event may be, in bytes. Memory is where the
	// room for it is taken from.
	Limit  int64
	Memory *budget.Budget
}

// Writer is the response writer of an answer that is filtered. Finish must be called
// at its end, and Close however it has ended.
type Writer struct {
	below http.ResponseWriter
	Options

	share  budget.Share
	taken  int64      // of the share, for the event that is held back
	format sse.Format // of what is filtered; Unwatched: nothing is
	status int        // 0 before there is one
	wrote  bool       // the header
	// guessed says that the answer is taken for an event stream whatever its type, seen
	// that its first byte has been looked at.
	guessed, seen bool
	whole         *budget.Buffer
	// beginning is that of a JSON answer, as long as it may turn out to be a long response.
	// passes says that it is one.
	beginning []byte
	passes    bool
	// passing looks for a method and for the id in a long response that is passed on as it comes.
	passing sse.Watcher
	strange bool // it has found what must not be
	event   event
	err     error
	dropped int // bytes, after err
}

// New returns a writer that writes to below what is left of an answer.
func New(below http.ResponseWriter, o Options) *Writer {
	return &Writer{below: below, Options: o, share: o.Memory.Share()}
}

// Header implements [http.ResponseWriter].
func (w *Writer) Header() http.Header { return w.below.Header() }

// WriteHeader implements [http.ResponseWriter].
func (w *Writer) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	if status < http.StatusOK {
		w.below.WriteHeader(status)
		return
	}
	w.status = status
	h := w.below.Header()
	w.format = sse.FormatOf(w.Get && status == http.StatusOK, h["Content-Type"], h["Content-Encoding"])
	switch {
	case w.format == sse.Unreadable:
		w.err = ErrUnreadable
	case w.format == sse.Stream:
		dropTags(h)
		h.Del("Content-Length")
		if w.guessed = sse.FormatOf(false, h["Content-Type"], nil) != sse.Stream; !w.guessed {
			w.pass()
		}
	case w.format == sse.JSON && (w.Whole || w.Glance > 0): // held back
	case w.Whole && w.format == sse.Unwatched && mayHaveBody(status):
		w.err = ErrUnreadable
	default:
		w.format = sse.Unwatched
		w.pass()
	}
}

// mayHaveBody reports whether an answer of that status to a request for a list may be
// one, whatever its type. (An error page is none.)
func mayHaveBody(status int) bool {
	return !isError(status) && status != http.StatusAccepted && status != http.StatusNoContent
}

func isError(status int) bool { return status >= http.StatusMultipleChoices }

// dropTags removes what is said of the answer as it was.
func dropTags(h http.Header) {
	for _, name := range [...]string{"Etag", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest"} {
		delete(h, name)
	}
}

// pass passes on the header, if it has not been yet.
func (w *Writer) pass() {
	if !w.wrote {
		w.wrote = true
		w.below.WriteHeader(w.status)
	}
}

// Write implements [io.Writer]. Once a stream could not be filtered, it returns why;
// of an answer that was held back the rest is dropped, and Finish says why. After
// [maxDropped] bytes of that it returns why, too: some answers never end.
func (w *Writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.guessed && !w.seen {
		w.look(p)
	}
	switch {
	case w.err != nil:
	case w.format == sse.JSON:
		w.err = w.json(p)
	case w.format == sse.Stream:
		w.err = w.stream(p)
	default:
		return w.below.Write(p)
	}
	if w.err != nil {
		if w.dropped += len(p); w.wrote || w.dropped > maxDropped {
			return 0, w.err
		}
	}
	return len(p), nil
}

// maxDropped is how many bytes of an answer are dropped, so that its connection can be used
// again.
const maxDropped = 256 << 10

// look takes what is guessed to be an event stream for JSON if it begins like that: no
// stream does.
func (w *Writer) look(p []byte) {
	if p = bytes.TrimLeft(p, " \t\r\n\xef\xbb\xbf"); len(p) == 0 {
		return
	}
	w.seen = true
	if p[0] == '{' || p[0] == '[' {
		w.format = sse.JSON
		return
	}
	w.pass()
}

// FlushError flushes what has been written. [http.ResponseController] calls it.
func (w *Writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.guessed && w.format == sse.Stream && w.err == nil {
		w.pass()
	}
	if !w.wrote {
		return nil
	}
	return http.NewResponseController(w.below).Flush()
}

// Unwrap returns the writer below, for what [http.ResponseController] can do besides
// flushing.
func (w *Writer) Unwrap() http.ResponseWriter { return w.below }

// Started reports whether anything of the answer has been passed on.
func (w *Writer) Started() bool { return w.wrote }

// Failed reports whether it is known that the answer cannot be passed on: what comes is
// dropped.
func (w *Writer) Failed() bool { return w.err != nil }

// Finish passes on what was held back. It returns [ErrTooLarge] or [ErrUnreadable] if
// something could not be: of an answer that has not been started nothing is.
func (w *Writer) Finish() error {
	switch {
	case w.err != nil:
	case w.format == sse.JSON:
		w.err = w.finishWhole()
	case w.format == sse.Stream && (w.guessed || w.Lenient): // it may be a page; some clients take it for an event
		w.pass()
		if err := w.writeEvent(); !errors.Is(err, ErrUnreadable) {
			w.err = err
		}
	}
	return w.err // what is left of another stream is no event
}

// Close gives back what is held, however the answer has ended.
func (w *Writer) Close() {
	if w == nil {
		return
	}
	w.whole, w.beginning, w.event = nil, nil, event{}
	w.share.Release()
}

// Interface guards
var (
	_ http.ResponseWriter             = (*Writer)(nil)
	_ interface{ FlushError() error } = (*Writer)(nil)
)
