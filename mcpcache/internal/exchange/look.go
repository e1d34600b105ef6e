package exchange

import (
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

// Look is what the cache has for a request before anything is fetched.
type Look struct {
	// Entry is the best copy that the caller may be given, and Fresh whether that is
	// fresh for such a client.
	Entry *cache.Entry
	Fresh bool
	// NoticeSeen is set if the caller has seen a notice about the list. Pending is set if the
	// caller may have changed the list itself.
	NoticeSeen *admission.NoticeSeen
	Pending    *admission.PendingChange
}

// Look looks up a request, whose body it reads. ok is false if the request would be
// forwarded without a lookup, or if there is no copy. Nothing is fetched, and
// nothing is remembered of the request.
func (e *Endpoint) Look(w http.ResponseWriter, r *http.Request) (l Look, ok bool) {
	x := e.exchange(w, r)
	x.mapPlaceholders()
	if reason, err := x.understand(); reason != understood || err != nil {
		return Look{}, false
	}
	caller := x.caller()
	x.findVariant(&x.search, caller)
	if !x.admitted(caller) {
		return Look{}, false
	}
	a := asker{Caller: caller}
	if caller != nil {
		a.noticeSeen, a.pending = caller.NoticeSeen(x.question.kind), caller.Pending(x.question.kind, x.now)
	}
	l = Look{NoticeSeen: a.noticeSeen, Pending: a.pending}
	if l.Entry, l.Fresh = x.freshest(a); l.Entry == nil {
		l.Entry = x.substitute()
	}
	return l, l.Entry != nil
}
