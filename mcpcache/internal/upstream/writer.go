package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
)

// responseWriter turns what a handler writes into an [http.Response]. The body
// is a pipe: the handler waits for its reader, so that nothing is buffered and
// every byte is handed on the moment it is written.
type responseWriter struct {
	req    *http.Request
	ctx    context.Context // of the request as the handler has it
	cancel context.CancelFunc
	header http.Header
	body   *io.PipeReader
	pipe   *io.PipeWriter
	// abandoned says that nobody reads the body any more.
	abandoned atomic.Bool
	timer     atomic.Pointer[time.Timer]

	// ready is closed once there is a response or the failure to get one.
	ready chan struct{}
	once  sync.Once
	res   *http.Response
	err   error
}

func newResponseWriter(ctx context.Context, req *http.Request, cancel context.CancelFunc) *responseWriter {
	pr, pw := io.Pipe()
	return &responseWriter{
		req: req, ctx: ctx, cancel: cancel, header: make(http.Header),
		body: pr, pipe: pw, ready: make(chan struct{}),
	}
}

// Header implements [http.ResponseWriter].
func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. Informational responses are
// dropped.
func (w *responseWriter) WriteHeader(status int) {
	if status < 200 {
		return
	}
	w.once.Do(func() {
		w.res = &http.Response{
			Status: http.StatusText(status), StatusCode: status,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: w.header.Clone(), ContentLength: -1, Request: w.req,
			Body: &pipeBody{PipeReader: w.body, abandon: w.abandon},
		}
		close(w.ready)
	})
}

// Write implements [io.Writer]. It returns once the reader of the response
// body has taken the bytes. What nobody will read is dropped, until the request
// is cancelled.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	if w.abandoned.Load() {
		return len(p), nil
	}
	n, err := w.pipe.Write(p)
	if err != nil && w.abandoned.Load() && w.ctx.Err() == nil {
		return len(p), nil
	}
	return n, err
}

// Flush implements [http.Flusher]: every write is flushed already.
func (w *responseWriter) Flush() { w.WriteHeader(http.StatusOK) }

// FlushError is Flush as [http.ResponseController] prefers it.
func (w *responseWriter) FlushError() error {
	w.Flush()
	return nil
}

// linger is how long the rest of an answer that nobody reads may take. Servers
// end a stream right after the answer on it.
const linger = time.Second

// abandon is called when nobody reads the body any more. What is left of the
// answer to a POST is taken in; anything else ends at once: a request without
// an answer, a stream that is there to last.
func (w *responseWriter) abandon() {
	if w.abandoned.Swap(true) {
		return
	}
	_ = w.body.CloseWithError(context.Canceled)
	select {
	case <-w.ready:
	default:
		w.cancel()
		return
	}
	if w.req.Method != http.MethodPost || requesthint.IsStream(w.req.Context()) {
		w.cancel()
		return
	}
	w.timer.Store(time.AfterFunc(linger, w.cancel))
}

// finish is called once the handler has returned, with its error.
func (w *responseWriter) finish(err error) {
	defer w.cancel()
	defer func() {
		if timer := w.timer.Load(); timer != nil {
			timer.Stop()
		}
	}()
	w.once.Do(func() {
		if w.err = unreachable(err); err == nil {
			w.err = errors.New("upstream handler wrote no response")
		}
		close(w.ready)
	})
	if err != nil {
		_ = w.pipe.CloseWithError(err)
		return
	}
	_ = w.pipe.Close()
}

// pipeBody abandons the answer when the response body is closed.
type pipeBody struct {
	*io.PipeReader
	abandon func()
}

func (b *pipeBody) Close() error {
	b.abandon()
	return nil
}
