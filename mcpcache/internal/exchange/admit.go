package exchange

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// admit records that the upstream has answered this caller a list.
func (l *learner) admit() {
	x := l.x
	memo, r := x.backend.Admission, x.question.revision
	until := identity.AdmittedUntil(x.r, x.now, x.backend.Settings.AdmitFor)
	kind := x.question.kind
	answered := revision.SetOf(kind)
	switch {
	case kind == revision.Reads && x.session == "":
		memo.AnswerContext(x.context, r, answered, x.ticket)
	case kind == revision.Reads:
		memo.RenewSession(x.session, x.context, answered, x.ticket, until)
	case x.session == "":
		memo.AdmitContext(x.context, r, answered, x.ticket, until)
		x.keepAdmission(until)
	default:
		if known := memo.Session(x.session); known != nil {
			r = known.Revision // what was negotiated
		}
		memo.AdmitSession(x.session, x.context, r, answered, x.ticket, until)
	}
}

// keepAdmission has a restart not end the admission of callers without
// credentials. What is kept says nothing of kinds, so there must be none that
// they are refused.
func (x *exchange) keepAdmission(until time.Time) {
	if x.context != cache.Anonymous || x.question.kind == revision.Discover {
		return
	}
	c := x.caller()
	if c == nil || !c.Admitted(x.question.kind, x.now) {
		return // it was refused meanwhile
	}
	for k := range revision.Kind(revision.NumKinds) {
		if c.Refused().Has(k) && x.offered(k) {
			return
		}
	}
	x.backend.Keeper.Admit(x.question.revision, until)
}

// offered reports whether the upstream answers anybody a list of k, as far as
// the feed knows.
func (x *exchange) offered(k revision.Kind) bool {
	f := x.backend.Feeds.Of(x.question.revision)
	return f == nil || f.Offers(k)
}

// learnRefusal takes the answer to a question that has a status of errors: the
// modern era's, or that of a server which does not know the session any more.
func (l *learner) learnRefusal(r message.Response) {
	if r.Error != nil {
		l.learnAnswer(r)
	}
}

// bar records that the upstream has refused this caller a list.
func (l *learner) bar(code int) {
	x := l.x
	q := &x.question
	const methodNotFound, invalidParams = -32601, -32602
	if q.kind == revision.Reads {
		return // that is no list
	}
	if q.detail != nil && code == invalidParams {
		return // that is about a cursor, which anybody can make up
	}
	if code == methodNotFound && !x.offered(q.kind) {
		return // nobody is answered that list
	}
	if isAboutMethod(code) {
		x.backend.Admission.RefuseKind(x.session, x.context, q.revision, q.kind)
		if x.session == "" && x.context == cache.Anonymous {
			x.backend.Keeper.Refuse(q.revision) // what is kept says nothing of kinds
		}
		return
	}
	if x.session != "" {
		x.backend.Admission.RefuseSession(x.session, revision.SetOf(q.kind))
		return
	}
	x.refuseContext()
}

// isAboutMethod reports whether an error is about what was asked for, not about
// who asks: the method is not there, its parameters are bad, or it has failed
// (JSON-RPC 2.0, "Error object"). Other lists are then what they were.
func isAboutMethod(code int) bool {
	const methodNotFound, invalidParams, internalError = -32601, -32602, -32603
	return code == methodNotFound || code == invalidParams || code == internalError
}

// refuseContext records that the upstream has refused a list to a caller without
// a session.
func (x *exchange) refuseContext() {
	x.backend.Admission.RefuseContext(x.context, x.question.revision, revision.SetOf(x.question.kind))
	if x.context == cache.Anonymous {
		x.backend.Keeper.Refuse(x.question.revision)
	}
}

// endSessions records that the sessions which the request names are over, or may
// be: each has to be let in anew, by the server's answer to its next list.
func (x *exchange) endSessions() {
	for _, id := range x.sessions {
		x.backend.Admission.EndSession(id)
	}
}

// refused records that the upstream does not let this caller in.
func (l *learner) refused() {
	x := l.x
	memo := x.backend.Admission
	var kinds revision.KindSet
	if l.asked || x.reason == bypassCursor { // a page is part of a list
		kinds = revision.SetOf(x.question.kind)
	}
	x.endSessions()
	memo.RefuseSession(x.session, kinds)
	if !x.context.IsAnonymous() {
		memo.Revoke(x.context)
	}
	if x.session == "" && kinds != 0 {
		// That a caller without credentials may not do something else says
		// nothing about lists.
		x.refuseContext()
	}
}
