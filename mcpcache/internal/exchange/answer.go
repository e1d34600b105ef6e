package exchange

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/reply"
)

// answer writes an entry: a short prefix made for this request, and the bytes that
// the upstream wrote.
func (x *exchange) answer(f found) error {
	if s := x.screen; s != nil && s.client != nil {
		x.w, x.r = s.client, s.request // what the upstream has answered is not passed on
	}
	defer x.body.Release()
	shown := x.catalog.Shown(f.entry, x.view, x.now)
	if shown == nil {
		x.outcome, x.reason = OutcomeDenied, understood
		x.w.Header()["Cache-Status"] = []string{x.endpoint.status.denied()}
		return x.unfiltered("the list has another one in it, and is not shown")
	}
	if shown = x.page(f, shown); shown == nil {
		return x.cursorIsGone()
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
	}
	if x.backend.Settings.Precompress {
		answer.Cache = x.backend.Cache
	}
	answer.Write(x.w)
	return nil
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
