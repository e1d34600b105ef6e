package probe

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// trySeat finds out whether the server takes more than one session. It comes last, as
// the server may be stuck afterwards.
func (x *examination) trySeat(ctx context.Context) {
	i := slices.IndexFunc(x.report.Eras, func(e *Era) bool { return e.Sessions && e.revision.Era() == revision.Legacy })
	if i < 0 || ctx.Err() != nil {
		return
	}
	e := x.report.Eras[i]
	given := slices.IndexFunc(e.Lists, func(l *List) bool { return l.Failure == "" })
	if given < 0 {
		return // there would be nothing to ask the first session for
	}
	first := x.conversation(e.revision, x.Callers[0], noCapabilities)
	if err := first.open(ctx); err != nil {
		e.OneSession = refusesSession(err) // others were opened before, and their ends are not heard of
		e.KeepsOut = e.OneSession
		return
	}
	defer first.close(ctx)
	second := x.conversation(e.revision, x.Callers[0], noCapabilities)
	if err := second.open(ctx); err != nil {
		first.close(ctx)
		e.OneSession = refusesSession(err)
		e.KeepsOut = e.OneSession && (isUnnoticed(err) || refusesSession(x.reopen(ctx, e)))
		return
	}
	defer second.close(ctx)
	_, err := first.call(ctx, e.Lists[given].kind.Method(), nil)
	e.OneSession = refusesSession(err)
}

// reopen opens a session where another one has ended.
func (x *examination) reopen(ctx context.Context, e *Era) error {
	c := x.conversation(e.revision, x.Callers[0], noCapabilities)
	defer c.close(ctx)
	return c.open(ctx)
}

// refusesSession reports whether err may be for the sake of another session, not of the
// caller or of how often he asks.
func refusesSession(err error) bool {
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		return false
	}
	switch refused.answer.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false
	}
	return true
}

// isUnnoticed reports whether a session is refused in a way for which the feed of a cache
// does not give way: see exchange.isTaken.
func isUnnoticed(err error) bool {
	refused, ok := errors.AsType[*refusedError](err)
	return ok && refused.answer.status < http.StatusBadRequest
}

// mayBeSeat reports whether e is how servers that take one session refuse a second one.
func (e *refusedError) mayBeSeat() bool {
	switch e.answer.status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable:
		return e.method == "initialize"
	}
	return false
}

// modernOnly is the option that keeps the feed from opening a session.
const modernOnly = "eras modern"

// judgeSeat is about servers that take one session.
func judgeSeat(r *Report) []Finding {
	option := ""
	all := r.perEra(func(e *Era) string {
		const what = "One session only{era}: each client takes the seat from the others, or is refused while one has it. The cache's feed "
		const remedy = "Have the server take several sessions."
		const keeps = what + "would keep clients out: it does not notice that they are refused, or cannot give the seat back. " + remedy
		switch {
		case !e.OneSession:
			return ""
		case !e.KeepsOut:
			return what + "gives way to clients, and may miss changes meanwhile. " + remedy
		case r.Closed: // the option for that is the opposite
			return keeps
		}
		option = modernOnly
		return keeps + " With this option the feed opens none, and lists of that era are not cached."
	}, Costs)
	for i := range all {
		all[i].Set = option
	}
	return all
}
