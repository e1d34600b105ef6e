package exchange

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// admit records that the upstream has answered this caller a list.
func (l *learner) admit() {
	ledger, r := l.backend.Admission, l.question.revision
	until := identity.AdmittedUntil(l.r, l.now, l.backend.Settings.AdmitFor)
	kind := l.question.kind
	answered := revision.SetOf(kind)
	if f := l.backend.Feeds.Of(r); f != nil && kind != revision.Reads && !f.List(kind).Offers() {
		f.List(kind).Learn()
	}
	switch {
	case kind == revision.Reads && l.session == "":
		ledger.AnswerContext(l.context, r, answered, l.ticket)
	case kind == revision.Reads:
		ledger.RenewSession(l.session, l.context, answered, l.ticket, until)
	case l.session == "":
		ledger.AdmitContext(l.context, r, answered, l.ticket, until)
		l.keepAdmission(until)
	default:
		if known := ledger.Session(l.session); known != nil {
			r = known.Revision // what was negotiated
		}
		ledger.AdmitSession(l.session, l.context, r, answered, l.ticket, until)
	}
}

// keepAdmission has the admission of callers without credentials outlive a
// restart. What is stored says nothing of kinds, so they must be refused none.
func (l *learner) keepAdmission(until time.Time) {
	if l.context != cache.Anonymous || l.question.kind == revision.Discover {
		return
	}
	c := l.caller()
	if c == nil || !c.Admitted(l.question.kind, l.now) {
		return // it has been refused meanwhile
	}
	for k := range revision.Kind(revision.NumKinds) {
		if c.Refused().Has(k) && l.offered(k) {
			return
		}
	}
	l.backend.Keeper.Admit(l.question.revision, until)
}

// offered reports whether the upstream offers lists of k, as far as the feed
// knows.
func (l *learner) offered(k revision.Kind) bool {
	f := l.backend.Feeds.Of(l.question.revision)
	return f == nil || f.List(k).Offers()
}

// learnRefusal takes the answer to a question with status 400: an error of the
// modern era, or of a server that does not know the session any more.
func (l *learner) learnRefusal(r message.Response) {
	if r.Error != nil {
		l.learnAnswer(r)
	}
}

// revoke ends the caller's admission after the upstream has refused it a list.
func (l *learner) revoke(code int) {
	q := &l.question
	if q.kind == revision.Reads {
		return // resources/read is not a list
	}
	if q.detail != nil && code == jsonrpc.InvalidParams {
		return // it is about the cursor, which anybody can make up
	}
	if code == jsonrpc.MethodNotFound && !l.offered(q.kind) {
		return // the upstream has no such list for anybody
	}
	if isAboutMethod(code) {
		l.backend.Admission.RefuseKind(l.session, l.context, q.revision, q.kind)
		if l.session == "" && l.context == cache.Anonymous {
			l.backend.Keeper.Refuse(q.revision) // what is stored says nothing of kinds
		}
		return
	}
	if l.session != "" {
		l.backend.Admission.RefuseSession(l.session, revision.SetOf(q.kind))
		return
	}
	l.refuseContext()
}

// isAboutMethod reports whether an error is about the request, not about who
// sends it: the method does not exist, its parameters are bad, or it has failed
// (JSON-RPC 2.0, "Error object"). It says nothing of other lists.
func isAboutMethod(code int) bool {
	return code == jsonrpc.MethodNotFound || code == jsonrpc.InvalidParams || code == jsonrpc.InternalError
}

// refuseContext records that the upstream has refused a list to a caller without
// a session.
func (l *learner) refuseContext() {
	l.backend.Admission.RefuseContext(l.context, l.question.revision, revision.SetOf(l.question.kind))
	if l.context == cache.Anonymous {
		l.backend.Keeper.Refuse(l.question.revision)
	}
}

// endSessions records that the sessions which the request names are or may be
// over: each has to be admitted again, by the server's answer to its next list. Undo takes
// that back.
func (l *learner) endSessions() (undo []func()) {
	for _, id := range l.sessions {
		undo = append(undo, l.backend.Admission.EndSession(id))
	}
	return undo
}

// loseSessions is endSessions for a request to which the upstream says that it does not know the
// session: it may end sessions that look idle, since they only have hits.
func (l *learner) loseSessions() (undo []func()) {
	if l.session != "" && !l.backend.Feeds.SuspectsSessions() {
		undo = append(undo, l.backend.Admission.Lost(l.session, l.arrived))
	}
	return append(undo, l.endSessions()...)
}

// refused records that the upstream does not let this caller in.
func (l *learner) refused() {
	ledger := l.backend.Admission
	var kinds revision.KindSet
	if l.keeps || l.reason == bypassCursor { // a page of a list counts as the list
		kinds = revision.SetOf(l.question.kind)
	}
	l.endSessions()
	ledger.RefuseSession(l.session, kinds)
	if !l.context.IsAnonymous() {
		ledger.Revoke(l.context)
	}
	if l.session == "" && kinds != 0 {
		// kinds is 0 if something else than a list was refused, which says
		// nothing about lists.
		l.refuseContext()
	}
}
