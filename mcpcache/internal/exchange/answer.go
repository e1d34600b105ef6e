package exchange

import (
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/reply"
)

// answer writes an entry: a short prefix made for this request, and the bytes that
// the upstream wrote.
func (x *exchange) answer(f found) error {
	if s := x.screen; s != nil && s.client != nil {
		x.w, x.r = s.client, s.request // what the upstream has answered is not passed on
	}
	defer x.body.Release()
	shown := x.catalog.Shown(x.r.Context(), f.entry, x.view, x.now)
	if shown == nil && f.entry.CanBeShown(x.view) {
		return x.noRoom()
	}
	if shown == nil {
		x.outcome, x.reason = OutcomeDenied, understood
		x.w.Header()["Cache-Status"] = []string{x.endpoint.status.denied()}
		return x.unfiltered("the list has another one in it, and is not shown")
	}
	if shown = x.page(f, shown); shown == nil {
		return x.cursorIsGone()
	}
	if shown != f.entry {
		own := x.backend.Cache
		if !own.Hold(shown) {
			shown = x.holdSoon(f, own.Counts(shown))
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
	x.given, x.left = f, left
	answer := reply.Reply{
		Asker: x, ID: x.request.ID, Entry: shown, TTL: ttlOf(f.entry, left), Stream: x.question.stream,
		Accept: x.r.Header["Accept-Encoding"], Now: x.now, Values: &x.values,
		Counts: x.backend.Cache.Counts(shown) > 0,
	}
	if x.backend.Settings.Precompress {
		answer.Cache = x.backend.Cache
	}
	answer.Write(x.w)
	return nil
}

// holdSoon returns what was found, as the caller is shown it, once there are so many bytes of
// memory for it, and holds that; nil if there are none. Other answers are forwarded then, but
// of this one the server's own would need the memory as well.
func (x *exchange) holdSoon(f found, room int64) (shown *cache.Entry) {
	held := x.backend.Cache.HoldSoon(x.r.Context(), freshness.Patience, room, func() *cache.Entry {
		shown = x.catalog.Shown(x.r.Context(), f.entry, x.view, x.now)
		if shown != nil {
			shown = x.page(f, shown)
		}
		return shown
	})
	if !held {
		return nil
	}
	return shown
}

// noRoom refuses a list for which there is no memory now.
func (x *exchange) noRoom() error {
	x.outcome, x.reason = OutcomeDenied, understood
	h := x.w.Header()
	h["Cache-Status"] = []string{x.endpoint.status.denied()}
	h["Retry-After"] = []string{"1"}
	return x.writeError(http.StatusServiceUnavailable, message.AppendError(nil, x.request.ID, internalError, "there is no memory left for a list of that size: try again"))
}

// AppendStatus implements [reply.Asker].
func (x *exchange) AppendStatus(dst []byte) []byte {
	return x.endpoint.status.appendHit(dst, x.given, x.left)
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
