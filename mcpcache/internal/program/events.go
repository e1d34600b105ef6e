package program

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// leastPace is how long a client may read nothing of what is there for it. Then its answer ends, as that takes
// memory.
const leastPace = 20 * time.Second

var errSlowReader = errors.New("client reads too slowly")

// answerBody is the body of an answer that comes from a stream.
type answerBody struct {
	ctx    context.Context
	stream *stream
	plain  bool   // the answer is one message
	left   func() // is called once when nobody reads it any more; nil: nobody wants to know
	slow   *time.Timer
	once   sync.Once

	mu    sync.Mutex
	piece piece
	parts [][]byte // of the piece, that have not been read yet
	last  bool     // the stream ends after them
	ended bool     // nobody reads, or too slowly
}

// events returns an answer that is a stream, of which the first message is there, or none.
// left is called when nobody reads it any more.
func events(r *http.Request, from *stream, first piece, last bool, left func()) *http.Response {
	b := newBody(r, &answerBody{stream: from, last: last, left: left})
	if b.parts = [][]byte{[]byte(comment)}; first.message != nil {
		b.show(first)
	}
	res := answer(r, http.StatusOK, nil)
	res.Header.Set("Content-Type", "text/event-stream")
	res.Header.Set("Cache-Control", "no-cache")
	res.Header.Set("X-Accel-Buffering", "no")
	res.ContentLength, res.Body = -1, b
	return res
}

// single returns an answer that is the only message of a stream.
func single(r *http.Request, status int, from *stream, only piece) *http.Response {
	b := newBody(r, &answerBody{stream: from, last: true, plain: true})
	b.show(only)
	res := answer(r, status, nil)
	res.Header.Set("Content-Type", "application/json")
	res.Header.Set("Content-Length", strconv.Itoa(len(only.message)))
	res.ContentLength, res.Body = int64(len(only.message)), b
	return res
}

func newBody(r *http.Request, b *answerBody) *answerBody {
	b.ctx = r.Context()
	b.slow = time.AfterFunc(leastPace, b.dropUnread)
	b.slow.Stop() // until something has been read
	return b
}

// comment is an event that nobody minds.
const comment = ":\n\n"

// show has a message be read next.
func (b *answerBody) show(next piece) {
	b.piece, b.parts = next, [][]byte{next.message}
	if !b.plain {
		b.parts = [][]byte{[]byte(sse.Start), inOneLine(next.message), []byte(sse.End)}
	}
}

// Read implements [io.Reader].
func (b *answerBody) Read(p []byte) (int, error) {
	b.slow.Stop()
	if err := b.fill(); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, errSlowReader
	}
	n := 0
	for len(b.parts) > 0 && n < len(p) {
		read := copy(p[n:], b.parts[0])
		n += read
		if b.parts[0] = b.parts[0][read:]; len(b.parts[0]) == 0 {
			b.parts = b.parts[1:]
		}
	}
	if len(b.parts) == 0 {
		b.piece.share.Release()
		b.piece = piece{}
	}
	b.slow.Reset(leastPace)
	return n, nil
}

// fill has the next message be read if there is none. Its error is io.EOF at the end.
func (b *answerBody) fill() error {
	b.mu.Lock()
	has, last, ended := len(b.parts) > 0, b.last, b.ended
	b.mu.Unlock()
	switch {
	case ended:
		return errSlowReader
	case has:
		return nil
	case last:
		return io.EOF
	}
	next, last := b.stream.next(keepAlive, b.ctx.Done())
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.last = last; {
	case b.ended:
		next.share.Release()
		return errSlowReader
	case next.message != nil:
		b.show(next)
	case b.ctx.Err() != nil:
		return context.Cause(b.ctx)
	case last:
		return io.EOF
	default:
		b.parts = [][]byte{[]byte(comment)}
	}
	return nil
}

// dropUnread drops what has not been read.
func (b *answerBody) dropUnread() {
	b.once.Do(func() {
		b.mu.Lock()
		b.ended, b.parts = true, nil
		b.piece.share.Release()
		b.piece = piece{}
		b.mu.Unlock()
		b.stream.drop()
		if b.left != nil {
			b.left()
		}
	})
}

// Close implements [io.Closer].
func (b *answerBody) Close() error {
	b.slow.Stop()
	b.dropUnread()
	return nil
}
