package exchange

import (
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/reply"
)

// answer writes an entry: a short prefix made for this request, and the bytes that
// the upstream wrote.
func (x *exchange) answer(f lookupResult) error {
	if f.hasMemory {
		defer x.backend.Cache.Release(f.entry)
	}
	shown := x.catalog.VisibleTo(x.r.Context(), f.entry, x.view, x.now)
	if shown == nil && f.entry.CanBeFiltered(x.view) {
		return x.noRoom()
	}
	if shown == nil {
		x.outcome, x.reason = outcome.Denied, understood
		x.w.Header()["Cache-Status"] = []string{x.endpoint.status.Own("denied")}
		return x.unfiltered("the list has another one in it, and is not shown")
	}
	if shown = x.page(f, shown); shown == nil {
		return x.cursorIsGone()
	}
	if shown != f.entry {
		own := x.backend.Cache
		if !own.Hold(shown) {
			f, shown = x.holdSoon(f, own.Counts(shown))
		}
		if shown == nil {
			return x.noRoom()
		}
		defer own.Release(shown)
	}
	x.outcome, x.reason = f.outcome(), f.reason
	left := f.entry.Left(x.now)
	switch {
	case f.stale:
		left = min(left, 0)
	case left <= 0: // of a server that sleeps
		left = x.backend.Cache.Left(f.entry, x.now)
	}
	x.answered, x.left = f, left
	answer := reply.Reply{
		Asker: x, ID: x.in.Message.ID, Entry: shown, TTL: ttlOf(f.entry, left), Stream: x.question.stream,
		Accept: x.r.Header["Accept-Encoding"], Now: x.now, Values: &x.values,
		Counts: x.backend.Cache.Counts(shown) > 0,
	}
	if x.backend.Settings.Precompress {
		answer.Cache = x.backend.Cache
	}
	answer.Write(x.w)
	return nil
}

// holdSoon waits until there are so many bytes of memory for a list. It looks the list up again
// then, as a change may have been announced or the caller refused meanwhile, and holds it as the
// caller is shown it. It returns nil if the caller cannot be given a list. Such a request is not
// forwarded: to hide items in the server's answer takes as much memory.
func (x *exchange) holdSoon(f lookupResult, room int64) (now lookupResult, shown *cache.Entry) {
	now = f
	held := x.backend.Cache.HoldSoon(x.r.Context(), freshness.Patience, room, func() *cache.Entry {
		if x.now = time.Now(); f.status == "" { // the server has not just answered it
			now = x.lookup(x.r.Context(), x.caller())
		}
		if now.entry == nil {
			return nil
		}
		if shown = x.catalog.VisibleTo(x.r.Context(), now.entry, x.view, x.now); shown != nil {
			shown = x.page(now, shown)
		}
		return shown
	})
	if !held {
		return now, nil
	}
	return now, shown
}

// noRoom tells the client to ask again, as there is no memory for its list now.
func (x *exchange) noRoom() error {
	x.outcome, x.reason = outcome.Denied, understood
	h := x.w.Header()
	h["Cache-Status"] = []string{x.endpoint.status.Own("denied")}
	h["Retry-After"] = []string{"1"}
	return x.writeProblem(jsonrpc.Failed(http.StatusServiceUnavailable, "there is no memory left for a list of that size: try again"), x.in.Message.ID)
}

// AppendStatus implements [reply.Asker].
func (x *exchange) AppendStatus(dst []byte) []byte {
	return appendHit(dst, x.endpoint.status, x.answered, x.left)
}

// ttlOf returns the ttlMs of an answer: what is left of the upstream's, or -1 if
// the upstream gave none.
func ttlOf(e *cache.Entry, left time.Duration) time.Duration {
	if !e.Body.HasTTL {
		return -1
	}
	return max(left, 0)
}

// Interface guards
var _ reply.Asker = (*exchange)(nil)
