package mcpcache

import (
	"bytes"
	"mime"
	"net/http"
	"strconv"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// lesson is what can be learned from one answer of the upstream as it passes:
// whom it lets in, what it announces, what it answers.
type lesson struct {
	x     *exchange
	asked bool // the answer may be kept

	stream  bool // the answer is an event stream
	watcher sse.Watcher
	// between says that no event has begun that has not ended.
	between bool

	// record collects an answer that has to be read as a whole; nil when
	// there is nothing to read, or it has been read.
	record *recording
	// begun is the beginning of an answer to tools/call: an error is short.
	begun  []byte
	misled bool // such an error was found
}

// recording is a bounded copy of an answer.
type recording struct {
	data   []byte
	limit  int64
	length int64 // of the whole answer, -1 if unknown
	learn  func(message.Response)
}

const (
	// maxInitialize is the largest answer to initialize that is read, in bytes.
	maxInitialize = 1 << 20
	// maxCallError is how much of an answer to tools/call is searched for an
	// error, in bytes.
	maxCallError = 4 << 10
)

// begin is called with the status and the header of the answer.
func (l *lesson) begin(status int, header http.Header) {
	x := l.x
	memo := x.h.shared.admission
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		memo.Revoke(x.context)
		memo.EndSession(x.session)
		return
	case status == http.StatusNotFound && x.session != "":
		memo.EndSession(x.session)
		return
	}
	l.stream, l.between = isStream(header.Get("Content-Type")), true
	if status != http.StatusOK || x.r.Method != http.MethodPost {
		return
	}
	switch {
	case l.asked:
		l.start(header, x.h.settings.feed.MaxList, l.learnAnswer)
	case x.method == "initialize" && x.request.ID != nil:
		opened := header.Get("Mcp-Session-Id")
		l.start(header, maxInitialize, func(r message.Response) { l.learnInitialize(r, opened) })
	default:
		l.admit()
	}
}

// isStream reports whether that is the content type of an event stream.
func isStream(contentType string) bool {
	switch contentType { // what nearly every server sends
	case "application/json":
		return false
	case "text/event-stream":
		return true
	}
	media, _, _ := mime.ParseMediaType(contentType)
	return media == "text/event-stream"
}

// start starts recording.
func (l *lesson) start(header http.Header, limit int64, learn func(message.Response)) {
	length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err != nil {
		length = -1
	}
	if length > limit || header.Get("Content-Encoding") != "" {
		return
	}
	l.record = &recording{limit: limit, length: length, learn: learn}
}

// storing reports whether the answer is likely to be kept. The feed's snapshot
// needs no second copy.
func (l *lesson) storing() bool { return l.asked && l.record != nil && l.x.snapshot() == nil }

// read is called with each part of the answer before it is handed on.
func (l *lesson) read(p []byte) {
	if l.stream {
		l.watch(p)
	}
	if l.x.method == "tools/call" {
		l.readCall(p)
	}
	if l.record == nil {
		return
	}
	if int64(len(l.record.data)+len(p)) > l.record.limit {
		l.record = nil
		return
	}
	l.record.data = append(l.record.data, p...)
	switch {
	case l.stream:
		// The client can act on an event as soon as it has it.
		if sse.EndsEvent(l.record.data) {
			l.learn(false)
		}
	case int64(len(l.record.data)) == l.record.length:
		l.learn(true)
	}
}

// readCall looks for an error that says the client was misled by a list: the
// tool is unknown, its arguments or headers do not fit. The client will list
// the tools again and must not get the same list. That a result mentions the
// code costs a needless refresh and no more.
func (l *lesson) readCall(p []byte) {
	if l.misled || len(l.begun) >= maxCallError {
		return
	}
	l.begun = append(l.begun, p[:min(len(p), maxCallError-len(l.begun))]...)
	for _, code := range [...]string{"-32602", "-32020"} {
		if bytes.Contains(l.begun, []byte(code)) {
			l.misled = true
			l.x.h.bump(revision.SetOf(revision.Tools), sourceCall)
			return
		}
	}
}

// end is called when the upstream's handler has returned.
func (l *lesson) end(err error) {
	if err == nil && l.record != nil {
		l.learn(true)
	}
}

// learn reads what has been recorded, if it holds the answer. whole says that
// nothing will follow.
func (l *lesson) learn(whole bool) {
	data := l.record.data
	id := l.x.request.ID
	if l.stream {
		data = sse.Find(data, func(data []byte) bool {
			r, err := message.ParseResponse(data)
			return err == nil && bytes.Equal(r.ID, id)
		})
		if data == nil && !whole {
			l.record.data = l.record.data[:0] // not to be searched again
			return
		}
	}
	learn := l.record.learn
	l.record = nil
	r, err := message.ParseResponse(data)
	if err == nil && bytes.Equal(r.ID, id) {
		learn(r)
	}
}

// admit records that the upstream has accepted this caller.
func (l *lesson) admit() {
	x := l.x
	memo := x.h.shared.admission
	until := x.h.admittedUntil(x.r, x.now)
	r := x.question.revision
	if r == revision.Unknown {
		r = revision.Parse(x.r.Header.Get("Mcp-Protocol-Version"))
	}
	if r.Era() == revision.Modern {
		memo.AdmitContext(x.context, r, x.ticket, until)
	} else if x.session == "" {
		memo.AdmitContext(x.context, r, x.ticket, until)
	} else {
		if known := memo.Session(x.session); known != nil {
			r = known.Revision // what was negotiated
		}
		memo.AdmitSession(x.session, x.context, r, x.ticket, until)
	}
	if f := x.h.shared.feeds.Of(r); f != nil {
		f.Poke()
	}
}

// learnInitialize records that a session was opened, and holds the answer back
// for a moment if the lists of its revision are not there yet.
func (l *lesson) learnInitialize(r message.Response, session string) {
	if r.Error != nil {
		return
	}
	info, err := message.ParseServerInfo(r.Result)
	negotiated := revision.Parse(info.ProtocolVersion)
	if err != nil || negotiated == revision.Unknown || negotiated.Era() != revision.Legacy {
		return
	}
	x := l.x
	x.session = session
	x.question.revision = negotiated
	l.admit()
	x.awaitFeed(x.r.Context(), x.feed())
}
