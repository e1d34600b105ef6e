package exchange

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded/splice"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// Sizes of the buffers for the beginning of an answer, in bytes. What is longer is
// allocated.
const (
	maxPrefix = 512 // all but a very long id fits
	maxStatus = 128 // the value of Cache-Status and the length
)

// maxCopied is the longest answer, in bytes, that is copied into a buffer and
// written at once although its body is there in one piece.
const maxCopied = 16 << 10

var envelopes = sync.Pool{New: func() any { return new([maxPrefix + maxStatus]byte) }}

// answer writes an entry: a short prefix made for this request, and the bytes that
// the upstream wrote.
func (x *exchange) answer(f found) error {
	if s := x.screen; s != nil && s.client != nil {
		x.w, x.r = s.client, s.request // what the upstream has answered is not passed on
	}
	defer x.body.release()
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
	if f.stale {
		left = min(left, 0)
	}
	room := envelopes.Get().(*[maxPrefix + maxStatus]byte)
	defer envelopes.Put(room)
	env := envelope{found: f, left: left, prefix: room[:0:maxPrefix], spare: room[maxPrefix:maxPrefix]}
	if x.question.stream {
		env.prefix, env.framing = append(env.prefix, sse.Start...), encoded.Event
	}
	env.prefix = message.AppendPrefix(env.prefix, x.request.ID, ttlOf(f.entry, left), shown.Size() > len("}}"))
	if compressed, coding := x.compressed(shown, env.framing); compressed != nil {
		x.writeCompressed(env, compressed, coding)
	} else {
		x.writeIdentity(env, shown)
	}
	return nil
}

// envelope is what an answer has besides the entry.
type envelope struct {
	found   found
	left    time.Duration // of its freshness
	prefix  []byte
	framing encoded.Framing
	spare   []byte // room for the header
}

// ttlOf returns the ttlMs of an answer: what is left of the upstream's, or -1 if
// the upstream gave none.
func ttlOf(e *cache.Entry, left time.Duration) time.Duration {
	if !e.Body.HasTTL {
		return -1
	}
	return max(left, 0)
}

// writeCompressed writes a compressed answer.
func (x *exchange) writeCompressed(env envelope, compressed *splice.Encoded, coding splice.Encoding) {
	out := outputs.Get().(*output)
	defer out.release()
	parts, _ := compressed.Splice(out.buf[:0], coding, env.prefix)
	h := x.w.Header()
	x.values.Set(h, "Content-Encoding", string(coding))
	x.values.Vary(h, "Accept-Encoding")
	size := len(parts.Head) + len(parts.Tail) + len(parts.Foot)
	x.begin200(env, size)
	// It fails if the client has gone; there is nobody to report that to.
	_, _ = parts.WriteTo(x.w)
}

// writeIdentity writes an answer uncompressed. A body in one piece is not copied,
// unless it is so short that a second write costs more: Caddy sets a deadline for
// each.
func (x *exchange) writeIdentity(env envelope, e *cache.Entry) {
	if x.compressible(e) {
		x.values.Vary(x.w.Header(), "Accept-Encoding")
	}
	size := len(env.prefix) + e.SizeIn(env.framing)
	x.begin200(env, size)
	if whole := e.Whole(); whole != nil && env.framing == encoded.Plain && size > maxCopied {
		if _, err := x.w.Write(env.prefix); err == nil {
			_, _ = x.w.Write(whole)
		}
		return
	}
	out := outputs.Get().(*output)
	defer out.release()
	out.writeEntry(x.w, env.prefix, e, env.framing)
}

// begin200 writes the header of an answer of that many bytes.
func (x *exchange) begin200(env envelope, size int) {
	h := x.w.Header()
	status := x.endpoint.status.appendHit(env.spare, env.found, env.left)
	n := len(status)
	text := string(strconv.AppendInt(status, int64(size), 10)) // one allocation for both values
	x.values.Set(h, "Cache-Status", text[:n])
	if env.framing == encoded.Event {
		x.values.Set(h, "Content-Type", "text/event-stream")
		x.values.Set(h, "Cache-Control", "no-cache")
	} else {
		x.values.Set(h, "Content-Type", "application/json")
	}
	x.values.Set(h, "Content-Length", text[n:])
	x.allowPage(h)
	x.w.WriteHeader(http.StatusOK)
}

// compressed returns an entry compressed and the coding that its client prefers.
// It returns nil if the answer has to be sent uncompressed: the client prefers
// that, or the entry has not been compressed yet.
func (x *exchange) compressed(e *cache.Entry, framing encoded.Framing) (*splice.Encoded, splice.Encoding) {
	if !x.compressible(e) {
		return nil, ""
	}
	best, second := encoded.Choose(x.r.Header["Accept-Encoding"])
	if best == "" {
		return nil, ""
	}
	compressed := x.backend.Cache.Encoded(e, framing, x.now)
	switch {
	case compressed == nil:
		return nil, ""
	case compressed.Has(best):
		return compressed, best
	case second != "" && compressed.Has(second):
		return compressed, second
	}
	return nil, ""
}

// compressible reports whether the coding of answers made of the entry depends on
// what the client accepts.
func (x *exchange) compressible(e *cache.Entry) bool {
	return x.backend.Settings.Precompress && e.Size() >= encoded.LeastSize
}
