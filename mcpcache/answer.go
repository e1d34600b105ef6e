package mcpcache

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/splice"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// maxPrefix is the size of the buffers in which the beginnings of answers are
// built, in bytes. Only a very long id does not fit.
const maxPrefix = 512

var prefixes = sync.Pool{New: func() any { return new([maxPrefix]byte) }}

// answer writes an entry: a small prefix that is this request's own, and the
// bytes that the upstream wrote.
func (x *exchange) answer(f found) error {
	defer x.body.release()
	e := f.entry
	x.outcome, x.reason = f.outcome(), understood
	left := e.Left(x.now)
	if f.stale {
		left = min(left, 0)
	}
	x.values.set(x.w.Header(), "Cache-Status", x.h.status.hit(f, left))
	room := prefixes.Get().(*[maxPrefix]byte)
	defer prefixes.Put(room)
	prefix, framing := room[:0], cache.Plain
	if x.question.stream {
		prefix, framing = append(prefix, sse.Start...), cache.Event
	}
	prefix = message.AppendPrefix(prefix, x.request.ID, ttlOf(e, left), e.Size() > len("}}"))
	if encoded, coding := x.encoded(e, framing); encoded != nil {
		x.writeEncoded(prefix, encoded, coding, framing)
	} else {
		x.writeIdentity(prefix, e, framing)
	}
	return nil
}

// ttlOf is the ttlMs that an answer carries: what is left of the upstream's, if
// the upstream gave one.
func ttlOf(e *cache.Entry, left time.Duration) time.Duration {
	if !e.Body.HasTTL {
		return -1
	}
	return max(left, 0)
}

// writeEncoded writes a compressed answer.
func (x *exchange) writeEncoded(prefix []byte, encoded *splice.Encoded, coding splice.Encoding, framing cache.Framing) {
	out := outputs.Get().(*output)
	defer out.release()
	parts, _ := encoded.Splice(out.buf[:0], coding, prefix)
	h := x.w.Header()
	x.values.set(h, "Content-Encoding", string(coding))
	x.values.vary(h, "Accept-Encoding")
	size := len(parts.Head) + len(parts.Tail) + len(parts.Foot)
	x.begin200(framing, size)
	defer x.widen(size)()
	// An error says that the client has gone; there is nobody to tell.
	_, _ = parts.WriteTo(x.w)
}

// writeIdentity writes an answer as it is. Bytes that are kept in one piece
// are not copied.
func (x *exchange) writeIdentity(prefix []byte, e *cache.Entry, framing cache.Framing) {
	if x.compressible(e) {
		x.values.vary(x.w.Header(), "Accept-Encoding")
	}
	size := len(prefix) + e.SizeIn(framing)
	x.begin200(framing, size)
	defer x.widen(size)()
	if whole := e.Whole(); whole != nil && framing == cache.Plain {
		if _, err := x.w.Write(prefix); err == nil {
			_, _ = x.w.Write(whole)
		}
		return
	}
	out := outputs.Get().(*output)
	defer out.release()
	out.writeEntry(x.w, prefix, e, framing)
}

// begin200 writes the header of an answer of that many bytes.
func (x *exchange) begin200(framing cache.Framing, size int) {
	h := x.w.Header()
	if framing == cache.Event {
		x.values.set(h, "Content-Type", "text/event-stream")
		x.values.set(h, "Cache-Control", "no-cache")
	} else {
		x.values.set(h, "Content-Type", "application/json")
	}
	x.values.set(h, "Content-Length", strconv.Itoa(size))
	x.w.WriteHeader(http.StatusOK)
}

// wideChunk is how many bytes of an answer may be written under one idle
// deadline, if the operator has not said otherwise. Caddy's own 64 KiB has it
// set a timer for each 64 KiB. A client is cut that takes longer for a chunk
// than the idle timeout; with 256 KiB and Caddy's 60 seconds that is one with
// less than 35 kbit/s.
const wideChunk = 256 << 10

// widen lets an answer of that many bytes be written in larger chunks, until
// the function that it returns is called.
func (x *exchange) widen(size int) (restore func()) {
	if size <= caddyhttp.DefaultMaxWriteChunk {
		return nothing
	}
	_, w := caddyhttp.IdleTimeoutsFromContext(x.r.Context())
	if w == nil || w.MaxChunk != 0 {
		return nothing
	}
	w.MaxChunk = wideChunk
	return func() { w.MaxChunk = 0 }
}

func nothing() {}
