package program

import (
	"context"
	"io"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// eventBody is the body of an answer that is an event stream.
type eventBody struct {
	ctx    context.Context
	stream *stream
	left   func()
	bytes  []byte // of an event, that have not been read yet
	last   bool   // the stream ends after them
}

// events returns an answer that is a stream, of which the first message is there, or none.
// left is called when nobody reads it any more.
func events(r *http.Request, from *stream, first []byte, last bool, left func()) *http.Response {
	b := &eventBody{ctx: r.Context(), stream: from, left: left, last: last, bytes: []byte(comment)}
	if first != nil {
		b.bytes = sse.AppendEvent(nil, first)
	}
	res := answer(r, http.StatusOK, nil)
	res.Header.Set("Content-Type", "text/event-stream")
	res.Header.Set("Cache-Control", "no-cache")
	res.Header.Set("X-Accel-Buffering", "no")
	res.ContentLength, res.Body = -1, b
	return res
}

// comment is an event that nobody minds.
const comment = ":\n\n"

// Read implements [io.Reader].
func (b *eventBody) Read(p []byte) (int, error) {
	if len(b.bytes) == 0 {
		if b.last {
			return 0, io.EOF
		}
		var message []byte
		message, b.last = b.stream.next(keepAlive, b.ctx.Done())
		switch {
		case message != nil:
			b.bytes = sse.AppendEvent(b.bytes, message)
		case b.ctx.Err() != nil:
			return 0, context.Cause(b.ctx)
		case b.last:
			return 0, io.EOF
		default:
			b.bytes = append(b.bytes, comment...)
		}
	}
	n := copy(p, b.bytes)
	b.bytes = b.bytes[n:]
	return n, nil
}

// Close implements [io.Closer].
func (b *eventBody) Close() error {
	b.left()
	return nil
}
