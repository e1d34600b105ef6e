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
	x := l.x
	ledger, r := x.backend.Admission, x.question.revision
	until := identity.AdmittedUntil(x.r, x.now, x.backend.Settings.AdmitFor)
	kind := x.question.kind
	answered := revision.SetOf(kind)
	if f := x.backend.Feeds.Of(r); f != nil && kind != revision.Reads && !f.Offers(kind) {
		f.Learn(kind)
	}
	switch {
	case kind == revision.Reads && x.session == "":
		ledger.AnswerContext(x.context, r, answered, x.ticket)
	case kind == revision.Reads:
		ledger.RenewSession(x.session, x.context, answered, x.ticket, until)
	case x.session == "":
		ledger.AdmitContext(x.context, r, answered, x.ticket, until)
		x.keepAdmission(until)
	default:
		if known := ledger.Session(x.session); known != nil {
			r = known.Revision // what was negotiated
		}
		ledger.AdmitSession(x.session, x.context, r, answered, x.ticket, until)
	}
}

// keepAdmission has the admission of callers without credentials outlive a
// restart. What is stored says nothing of kinds, so they must be refused none.
func (x *exchange) keepAdmission(until time.Time) {
	if x.context != cache.Anonymous || x.question.kind == revision.Discover {
		return
	}
	c := x.caller()
	if c == nil || !c.Admitted(x.question.kind, x.now) {
		return // it has been refused meanwhile
	}
	for k := range revision.Kind(revision.NumKinds) {
		if c.Refused().Has(k) && x.offered(k) {
			return
		}
	}
	x.backend.Keeper.Admit(x.question.revision, until)
}

// offered reports whether the upstream offers lists of k, as far as the feed
// knows.
func (x *exchange) offered(k revision.Kind) bool {
	f := x.backend.Feeds.Of(x.question.revision)
	return f == nil || f.Offers(k)
}

// learnRefusal takes the answer to a question with status 400: an error of the
// modern era, or of a server that does not know the session any more.
func (l *learner) learnRefusal(r message.Response) {
	if r.Error != nil {
		l.learnAnswer(r)
	}
}

// bar records that the upstream has refused this caller a list.
func (l *learner) bar(code int) {
	x := l.x
	q := &x.question
	if q.kind == revision.Reads {
		return // resources/read is not a list
	}
	if q.detail != nil && code == jsonrpc.InvalidParams {
		return // it is about the cursor, which anybody can make up
	}
	if code == jsonrpc.MethodNotFound && !x.offered(q.kind) {
		return // the upstream has no such list for anybody
	}
	if isAboutMethod(code) {
		x.backend.Admission.RefuseKind(x.session, x.context, q.revision, q.kind)
		if x.session == "" && x.context == cache.Anonymous {
			x.backend.Keeper.Refuse(q.revision) // what is stored says nothing of kinds
		}
		return
	}
	if x.session != "" {
		x.backend.Admission.RefuseSession(x.session, revision.SetOf(q.kind))
		return
	}
	x.refuseContext()
}

// isAboutMethod reports whether an error is about the request, not about who
// sends it: the method does not exist, its parameters are bad, or it has failed
// (JSON-RPC 2.0, "Error object"). It says nothing of other lists.
func isAboutMethod(code int) bool {
	return code == jsonrpc.MethodNotFound || code == jsonrpc.InvalidParams || code == jsonrpc.InternalError
}

// refuseContext records that the upstream has refused a list to a caller without
// a session.
func (x *exchange) refuseContext() {
	x.backend.Admission.RefuseContext(x.context, x.question.revision, revision.SetOf(x.question.kind))
	if x.context == cache.Anonymous {
		x.backend.Keeper.Refuse(x.question.revision)
	}
}

// endSessions records that the sessions which the request names are or may be
// over: each has to be admitted again, by the server's answer to its next list. Undo takes
// that back.
func (x *exchange) endSessions() (undo []func()) {
	for _, id := range x.sessions {
		undo = append(undo, x.backend.Admission.EndSession(id))
	}
	return undo
}

// loseSessions is endSessions for a request to which the upstream says that it does not know the
// session: it may end sessions that look idle, since they only have hits.
func (x *exchange) loseSessions() (undo []func()) {
	if x.session != "" && !x.backend.Feeds.Doubted() {
		undo = append(undo, x.backend.Admission.Lost(x.session, x.arrived))
	}
	return append(undo, x.endSessions()...)
}

// refused records that the upstream does not let this caller in.
func (l *learner) refused() {
	x := l.x
	ledger := x.backend.Admission
	var kinds revision.KindSet
	if l.asked || x.reason == bypassCursor { // a page of a list counts as the list
		kinds = revision.SetOf(x.question.kind)
	}
	x.endSessions()
	ledger.RefuseSession(x.session, kinds)
	if !x.context.IsAnonymous() {
		ledger.Revoke(x.context)
	}
	if x.session == "" && kinds != 0 {
		// kinds is 0 if something else than a list was refused, which says
		// nothing about lists.
		x.refuseContext()
	}
}
