package exchange

import (
	"bytes"
	"mime"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// learner learns from one answer of the upstream as it passes: whom it lets in,
// which changes it announces, which list it holds.
type learner struct {
	*exchange

	keeps bool // the answer may be kept
	// mcp says that a request for another path than the endpoint's may come from an MCP client all the same.
	mcp bool
	// noticedCall says that what the call may have changed has been noted.
	noticedCall bool

	stream  bool // the answer is an event stream
	watcher sse.Watcher
	// between says that the last byte has ended an event.
	between bool

	// record collects an answer that has to be read as a whole; nil if it need not
	// be, or has been.
	record *recording
	// unjudged is the header of an answer whose first part may show that it is a result, which need
	// not be recorded; nil otherwise.
	unjudged http.Header
	// unread says that the answer is to a list request and there was no room to
	// record it.
	unread bool
	// ok says that the answer has status 200 and is not cached.
	ok bool
	// ended takes back that the status of the answer has ended the sessions of the request,
	// until it is known what the answer is; nil otherwise.
	ended []func()
}

const (
	// maxInitialize is the largest answer to initialize that is read, in bytes.
	maxInitialize = 1 << 20
	// maxResult is how much is read of the answer to a request that is not cached,
	// in bytes, to find out whether it is a result.
	maxResult = 16 << 10
	// maxBeginning is how much of a message is looked at first, in bytes.
	maxBeginning = 512
)

// begin is called with the status and the header of the answer.
func (l *learner) begin(status int, h http.Header) {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		l.refused()
		return
	case l.r.Method == http.MethodDelete && status <= 299:
		l.backend.Feeds.ClientClosed(l.session)
	case status == http.StatusNotFound, status == http.StatusBadRequest:
		l.ended = l.loseSessions() // some servers say 400 of a session that they do not know
	case status <= 299 && l.session != "" && l.in.Method != "initialize":
		l.backend.Admission.Answered(l.session, l.arrived)
	}
	l.stream, l.between = isStream(header.First(h["Content-Type"])), true
	if l.elsewhere {
		l.beginElsewhere(status, h)
		return
	}
	l.watcher.Format = sse.FormatOf(l.r.Method == http.MethodGet, h["Content-Type"], h["Content-Encoding"])
	if l.r.Method != http.MethodPost {
		return
	}
	if l.watcher.Format == sse.Unreadable && !l.stream {
		l.watcher.Format = sse.Unwatched // it is JSON, in which the answer is all there is
	}
	call, refused := l.in.Method == "tools/call", status == http.StatusNotFound || status == http.StatusBadRequest
	switch {
	case refused && (l.keeps || call): // the modern era's errors
		l.unjudged = h
	case status != http.StatusOK:
	case l.keeps:
		l.backend.NoteLanguage(h)
		l.start(h, l.backend.Settings.Feed.MaxList, l.learnAnswer)
	case l.in.Method == "initialize" && l.in.Message.ID != nil:
		opened := h.Get("Mcp-Session-Id")
		l.start(h, maxInitialize, func(r message.Response) { l.learnInitialize(r, opened) })
	case call, l.sessions != nil:
		l.ok, l.unjudged = true, h
	}
	if status == http.StatusOK {
		if coding := header.Coding(h); coding != "" && !header.IsSigned(l.r.Header) {
			l.endpoint.Warnings.Warn("the server answers in a content coding that nobody asked for: a list in it lets no caller in, and is not kept",
				"coding", coding)
		}
		l.poke()
	}
}

// poke tells the feed that the upstream answers.
func (l *learner) poke() {
	if f := l.backend.Feeds.Of(l.revision()); f != nil {
		f.Poke()
	}
}

// isStream reports whether a content type is that of an event stream.
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
func (l *learner) start(h http.Header, limit int64, learn func(message.Response)) {
	l.record = newRecording(l.backend.Cache.Work(), h, l.stream, limit, l.answers, func(r message.Response) {
		if r.Error != nil && r.Error.Code == jsonrpc.UnknownSession {
			l.endSessions()
		}
		learn(r)
	})
	l.unread = l.keeps && l.record == nil && header.Coding(h) == ""
}

// storing reports whether the answer is likely to be kept: a list of which the feed
// has a snapshot is not, nor what will not be used again.
func (l *learner) storing() bool {
	return l.keeps && l.record != nil && !l.leftToFeed() && l.snapshot() == nil && !l.isSessionsOwn() && l.worthKeeping()
}

// read is called with each part of the answer before it is handed on.
func (l *learner) read(p []byte) {
	starts := l.between || !l.stream // a message begins with this part
	if l.ended != nil {
		l.excuse(p)
	}
	if l.watcher.Format != sse.Unwatched {
		l.watch(p)
	}
	if l.unjudged != nil && !l.recognizeResult(p) {
		learn := l.learnResult
		if l.keeps {
			learn = l.learnRefusal
		}
		l.start(l.unjudged, maxResult, learn)
		l.unjudged = nil
	}
	switch {
	case l.record == nil:
		l.glance(p, starts)
	case l.record.limit == maxResult && l.record.empty() && starts && l.recognizeResult(p):
	case !l.record.write(p):
		l.over()
	}
}

// excuse takes back the end of the sessions if the first part of the answer is an error about
// the request itself, such as a method that is not offered (mcp-toolbox#3588).
func (l *learner) excuse(p []byte) {
	ended := l.ended
	l.ended = nil
	if l.watcher.Format != sse.JSON {
		return
	}
	r, err := message.ParseResponse(p)
	if err != nil || r.Error == nil || r.Error.Code != jsonrpc.MethodNotFound && r.Error.Code != jsonrpc.InvalidParams {
		return
	}
	if asked := l.in.Decoded(); asked == nil || !message.SameID(r.ID, asked.ID) {
		return
	}
	for _, undo := range ended {
		undo()
	}
}

// over is called when the recording has ended.
func (l *learner) over() {
	r := l.record
	l.record = nil
	l.unread = l.keeps && r.unread
	if r.isResult {
		l.letIn()
	} else {
		l.glance(r.beginning, true)
	}
}

// glance looks at the beginning of a list that there was no room to record: if it
// is a result, it lets the caller in all the same.
func (l *learner) glance(p []byte, starts bool) {
	if l.unread && starts && l.isResult(p) {
		l.letIn()
	}
}

// letIn records that a list that was not recorded is a result.
func (l *learner) letIn() {
	if l.unread {
		l.unread = false
		l.admit()
		l.returnScout()
	}
}

// recognizeResult reports whether the beginning of a message already shows that it is a result, and then
// learns from it. Most messages are results, and need not be recorded.
func (l *learner) recognizeResult(p []byte) bool {
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

// finish is called when the upstream's handler has returned.
func (l *learner) finish(err error) {
	if err == nil && l.record != nil {
		l.record.read(true)
		l.over()
	}
	if l.ok {
		l.called()
	}
	if l.r.Method == http.MethodDelete {
		// Again, so that answers to requests sent meanwhile let nobody in.
		l.endSessions()
	}
	if err != nil && upstream.Refused(err) {
		for _, f := range l.backend.Feeds.All() {
			f.SuspectSession()
		}
	}
}

// close gives back what is still held, however the exchange has ended.
func (l *learner) close() {
	l.unjudged = nil
	if l.record != nil {
		l.record.free()
		l.record = nil
	}
}

// answers reports whether r is the response to the request. The id of a request
// that is not cached has not been read, so any response is. An error without an id
// comes from a server that could not read the id.
func (l *learner) answers(r message.Response) bool {
	id := l.in.Message.ID
	return id == nil || bytes.Equal(r.ID, id) || r.ID == nil && r.Error != nil
}

// learnResult takes the answer to a request that is not cached.
func (l *learner) learnResult(r message.Response) {
	if r.Error == nil {
		l.result()
		return
	}
	// The tool is unknown, or its arguments or headers are wrong: the client was
	// misled by an old list, and will ask for a new one.
	if l.in.Method == "tools/call" && (r.Error.Code == jsonrpc.InvalidParams || r.Error.Code == jsonrpc.HeaderMismatch) {
		l.misled()
	}
}

// result records that a request which is not cached was answered with a result. It
// prolongs the admission of a session, but admits nobody.
func (l *learner) result() {
	if l.ok && l.session != "" {
		l.backend.Admission.RenewSession(l.session, l.context, 0, l.ticket, identity.AdmittedUntil(l.r, l.now, l.backend.Settings.AdmitFor))
	}
	l.called()
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
	l.session = session
	l.question.revision = negotiated
	l.backend.Feeds.ClientOpened(session, l.arrived)
	ledger, until := l.backend.Admission, identity.AdmittedUntil(l.r, l.now, l.backend.Settings.AdmitFor)
	if v, known := l.backend.VariantOfClient(l.in.Body.Bytes); known {
		ledger.OpenSession(session, l.context, negotiated, v, l.ticket, until)
	} else {
		ledger.AdmitSession(session, l.context, negotiated, 0, l.ticket, until)
	}
	if f := l.feed(); f != nil { // nil of an era that is not spoken, or while the backend ends
		l.awaitFeed(l.r.Context(), f)
	}
}
