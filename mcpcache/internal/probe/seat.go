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
		return
	}
	defer first.close(ctx)
	second := x.conversation(e.revision, x.Callers[0], noCapabilities)
	err := second.open(ctx)
	defer second.close(ctx)
	if err == nil {
		_, err = first.call(ctx, e.Lists[given].kind.Method(), nil)
	}
	e.OneSession = refusesSession(err)
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

// mayBeSeat reports whether e is how servers that take one session refuse a second one.
func (e *refusedError) mayBeSeat() bool {
	switch e.answer.status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable:
		return e.method == "initialize"
	}
	return false
}

// judgeSeat is about servers that take one session.
func judgeSeat(r *Report) []Finding {
	return r.perEra(func(e *Era) string {
		if !e.OneSession {
			return ""
		}
		return "One session only{era}: each client takes the seat from the others, or is refused while one has it. " +
			"The cache's feed gives way to clients, and may miss changes meanwhile. Have the server take several sessions."
	}, Costs)
}
