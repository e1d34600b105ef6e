package exchange

import (
	"bytes"
	"mime"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// learner is what can be learned from one answer of the upstream as it passes:
// whom it lets in, what it announces, what it answers.
type learner struct {
	x     *exchange
	asked bool // the answer may be kept
	// elsewhere says that the request is for another path than the endpoint, mcp
	// that it may be of an MCP client all the same.
	elsewhere, mcp bool

	stream  bool // the answer is an event stream
	watcher sse.Watcher
	// between says that no event has begun that has not ended.
	between bool

	// record collects an answer that has to be read as a whole; nil when
	// there is nothing to read, or it has been read.
	record *recording
	// unread says that it is a list and is not recorded.
	unread bool
	// ok says that the answer has status 200 and is not cached.
	ok bool
}

const (
	// maxInitialize is the largest answer to initialize that is read, in bytes.
	maxInitialize = 1 << 20
	// maxResult is how much of the answer to a request that is not cached is
	// read to find out whether it is a result, in bytes.
	maxResult = 16 << 10
	// sessionNotFound is the error of SDKs for a session that they do not know.
	sessionNotFound = -32001
	// maxBeginning is how much of a message is looked at first, in bytes.
	maxBeginning = 512
)

// begin is called with the status and the header of the answer.
func (l *learner) begin(status int, header http.Header) {
	x := l.x
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		l.refused()
		return
	case status == http.StatusNotFound && x.sessions != nil:
		x.endSessions()
		return
	case status == http.StatusBadRequest:
		x.endSessions() // some servers say that of one that they do not know
	}
	l.stream, l.between = isStream(header.Get("Content-Type")), true
	if l.elsewhere {
		l.beginElsewhere(status, header)
		return
	}
	l.watcher.Format = sse.FormatOf(x.r.Method == http.MethodGet, header["Content-Type"], header["Content-Encoding"])
	if x.r.Method != http.MethodPost {
		return
	}
	call := x.method == "tools/call"
	switch {
	case status == http.StatusBadRequest && call: // the modern era's errors
		l.start(header, maxResult, l.learnResult)
	case status == http.StatusBadRequest && l.asked:
		l.start(header, maxResult, l.learnRefusal)
	case status != http.StatusOK:
	case l.asked:
		x.backend.NoteLanguage(header)
		l.start(header, x.backend.Settings.Feed.MaxList, l.learnAnswer)
	case x.method == "initialize" && x.request.ID != nil:
		opened := header.Get("Mcp-Session-Id")
		l.start(header, maxInitialize, func(r message.Response) { l.learnInitialize(r, opened) })
	case call, x.sessions != nil:
		l.ok = true
		l.start(header, maxResult, l.learnResult)
	}
	if status == http.StatusOK {
		x.poke()
	}
}

// poke tells the feed that the upstream answers.
func (x *exchange) poke() {
	if f := x.backend.Feeds.Of(x.revision()); f != nil {
		f.Poke()
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
func (l *learner) start(header http.Header, limit int64, learn func(message.Response)) {
	l.record = newRecording(l.x.backend.Cache.Work(), header, l.stream, limit, l.answers, func(r message.Response) {
		if r.Error != nil && r.Error.Code == sessionNotFound {
			l.x.endSessions()
		}
		learn(r)
	})
	l.unread = l.asked && l.record == nil && header.Get("Content-Encoding") == ""
}

// storing reports whether the answer is likely to be kept. The feed's snapshot
// needs no second copy, and what will not be used again is not called stored.
func (l *learner) storing() bool {
	return l.asked && l.record != nil && !l.x.context.IsAnonymous() && l.x.snapshot() == nil && l.x.worthKeeping()
}

// read is called with each part of the answer before it is handed on.
func (l *learner) read(p []byte) {
	starts := l.between || !l.stream // a message begins with this part
	if l.watcher.Format != sse.Unwatched {
		l.watch(p)
	}
	switch {
	case l.record == nil:
		l.glance(p, starts)
	case l.record.limit == maxResult && l.record.empty() && starts && l.judge(p):
	case !l.record.write(p):
		l.over()
	}
}

// over is called when the recording has ended.
func (l *learner) over() {
	r := l.record
	l.record = nil
	l.unread = l.asked && r.unread
	if r.isResult {
		l.letIn()
	} else {
		l.glance(r.beginning, true)
	}
}

// glance looks at the beginning of a list that is not recorded, for there is no
// room. That it is a result lets the caller in all the same.
func (l *learner) glance(p []byte, starts bool) {
	if l.unread && starts && l.isResult(p) {
		l.letIn()
	}
}

// letIn records that a list that is not read is a result.
func (l *learner) letIn() {
	if l.unread {
		l.unread = false
		l.admit()
		l.x.returnScout()
	}
}

// judge reports whether the beginning of a message has told all there is to know
// of it: it is a result. Most are, and large ones need not be recorded.
func (l *learner) judge(p []byte) bool {
	if !l.isResult(p) {
		return false
	}
	l.close()
	l.result()
	return true
}

// isResult reports whether a message that begins with p certainly is a result.
func (l *learner) isResult(p []byte) bool {
	if l.stream {
		_, p, _ = bytes.Cut(p, []byte("data:"))
		p = bytes.TrimLeft(p, " ")
	}
	return message.Judge(p[:min(len(p), maxBeginning)]) == message.IsResult
}

// end is called when the upstream's handler has returned.
func (l *learner) end(err error) {
	if err == nil && l.record != nil {
		l.record.read(true)
		l.over()
	}
	x := l.x
	if l.ok {
		x.called()
	}
	if x.r.Method == http.MethodDelete {
		// Answers that were under way meanwhile let nobody in again.
		x.endSessions()
	}
	if err != nil && upstream.Refused(err) {
		for _, f := range x.backend.Feeds.All() {
			f.Doubt()
		}
	}
}

// close gives back what is still held, however the exchange has ended.
func (l *learner) close() {
	if l.record != nil {
		l.record.free()
		l.record = nil
	}
}

// answers reports whether r is the response to the request. Of one that is not
// cached the id has not been read; it is the only request. An error without an id
// comes from a server that has not read it either.
func (l *learner) answers(r message.Response) bool {
	id := l.x.request.ID
	return id == nil || bytes.Equal(r.ID, id) || r.ID == nil && r.Error != nil
}

// learnResult takes the answer to a request that is not cached.
func (l *learner) learnResult(r message.Response) {
	if r.Error == nil {
		l.result()
		return
	}
	// The tool is unknown, or its arguments or headers do not fit: the client was
	// misled by a list. It will list the tools again.
	const invalidParams, headerMismatch = -32602, -32020
	if l.x.method == "tools/call" && (r.Error.Code == invalidParams || r.Error.Code == headerMismatch) {
		l.x.misled()
	}
}

// result records that a request which is not cached was answered with a result:
// that lets nobody in, but a session that was let in stays so.
func (l *learner) result() {
	x := l.x
	if l.ok && x.session != "" {
		x.backend.Admission.RenewSession(x.session, x.context, 0, x.ticket, identity.AdmittedUntil(x.r, x.now, x.backend.Settings.AdmitFor))
	}
	x.called()
}

// learnInitialize records that a session was opened, and holds the answer back
// for a moment if the lists of its revision are not there yet.
func (l *learner) learnInitialize(r message.Response, session string) {
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
	ledger, until := x.backend.Admission, identity.AdmittedUntil(x.r, x.now, x.backend.Settings.AdmitFor)
	if v, known := x.backend.VariantOfClient(x.body.bytes); known {
		ledger.OpenSession(session, x.context, negotiated, v, x.ticket, until)
	} else {
		ledger.AdmitSession(session, x.context, negotiated, 0, x.ticket, until)
	}
	if f := x.feed(); f != nil { // there is none while the configuration ends
		x.awaitFeed(x.r.Context(), f)
	}
}
