// Package reply writes an answer from memory. The answer has a short prefix that is made for the
// request, and the stored bytes, as they are or compressed. The package knows nothing of where the
// bytes come from, and of who may get them.
package reply

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded/splice"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/pace"
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

// Asker is a request that is answered.
type Asker interface {
	// AppendStatus appends the value of Cache-Status.
	AppendStatus(dst []byte) []byte
	// AllowPage sets what a page in a browser may do with the answer.
	AllowPage(h http.Header)
}

// Reply is an answer from memory.
type Reply struct {
	Asker Asker
	// ID is the request's, as written.
	ID []byte
	// Entry is what is answered with, as the caller is shown it.
	Entry *cache.Entry
	// TTL is the answer's ttlMs; negative: it has none.
	TTL time.Duration
	// Stream says that the client prefers an event stream.
	Stream bool
	// Cache has the entry compressed; nil: nothing is.
	Cache *cache.Cache
	// Accept is what the client accepts, the values of Accept-Encoding.
	Accept []string
	Now    time.Time
	// Counts says that the entry is in memory for this client alone, or for a few. It must not
	// be read too slowly.
	Counts bool
	// Values has room for the header.
	Values *header.Values

	framing encoded.Framing
	prefix  []byte
	spare   []byte // room for the header
}

// Write writes the answer. If the client has gone, there is nobody to report that to.
func (r *Reply) Write(w http.ResponseWriter) {
	room := envelopes.Get().(*[maxPrefix + maxStatus]byte)
	defer envelopes.Put(room)
	r.prefix, r.spare = room[:0:maxPrefix], room[maxPrefix:maxPrefix]
	if r.Stream {
		r.prefix, r.framing = append(r.prefix, sse.Start...), encoded.Event
	}
	r.prefix = message.AppendPrefix(r.prefix, r.ID, r.TTL, r.Entry.Size() > len("}}"))
	if compressed, coding := r.compressed(); compressed != nil {
		r.writeCompressed(w, compressed, coding)
	} else {
		r.writeIdentity(w)
	}
}

func (r *Reply) writeCompressed(w http.ResponseWriter, compressed *splice.Encoded, coding splice.Encoding) {
	out := outputs.Get().(*output)
	defer out.release()
	parts, _ := compressed.Splice(out.buf[:0], coding, r.prefix)
	h := w.Header()
	r.Values.Set(h, "Content-Encoding", string(coding))
	r.Values.Vary(h, "Accept-Encoding")
	size := len(parts.Head) + len(parts.Tail) + len(parts.Foot)
	p := r.begin200(w, size)
	_, err := parts.WriteTo(w)
	p.End(err == nil)
}

// writeIdentity writes the answer uncompressed. A body in one piece is not copied,
// unless it is so short that a second write costs more: Caddy sets a deadline for
// each.
func (r *Reply) writeIdentity(w http.ResponseWriter) {
	if r.compressible() {
		r.Values.Vary(w.Header(), "Accept-Encoding")
	}
	size := len(r.prefix) + r.Entry.SizeIn(r.framing)
	p := r.begin200(w, size)
	p.End(r.writeParts(w, size) == nil)
}

// writeParts writes what begin200 has announced.
func (r *Reply) writeParts(w http.ResponseWriter, size int) error {
	if whole := r.Entry.Whole(); whole != nil && r.framing == encoded.Plain && size > maxCopied {
		if _, err := w.Write(r.prefix); err != nil {
			return err
		}
		_, err := w.Write(whole)
		return err
	}
	out := outputs.Get().(*output)
	defer out.release()
	return out.writeEntry(w, r.prefix, r.Entry, r.framing)
}

// begin200 writes the header of an answer of that many bytes. It returns the pace at which
// the client has to read one that counts.
func (r *Reply) begin200(w http.ResponseWriter, size int) *pace.Pace {
	h := w.Header()
	status := r.Asker.AppendStatus(r.spare)
	n := len(status)
	text := string(strconv.AppendInt(status, int64(size), 10)) // one allocation for both values
	r.Values.Set(h, "Cache-Status", text[:n])
	if r.framing == encoded.Event {
		r.Values.Set(h, "Content-Type", "text/event-stream")
		r.Values.Set(h, "Cache-Control", "no-cache")
	} else {
		r.Values.Set(h, "Content-Type", "application/json")
	}
	r.Values.Set(h, "Content-Length", text[n:])
	r.Asker.AllowPage(h)
	w.WriteHeader(http.StatusOK)
	if !r.Counts {
		return nil
	}
	return pace.Writing(w, size)
}

// compressed returns the entry compressed and the coding that its client prefers.
// It returns nil if the answer has to be sent uncompressed: the client prefers
// that, or the entry has not been compressed yet.
func (r *Reply) compressed() (*splice.Encoded, splice.Encoding) {
	if !r.compressible() {
		return nil, ""
	}
	best, second := encoded.Choose(r.Accept)
	if best == "" {
		return nil, ""
	}
	compressed := r.Cache.Encoded(r.Entry, r.framing, r.Now)
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
func (r *Reply) compressible() bool { return r.Cache != nil && r.Entry.Size() >= encoded.LeastSize }
