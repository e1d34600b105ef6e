package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
)

// errIdle says that nothing has arrived on a stream for its idle timeout: the connection
// may be dead.
var errIdle = errors.New("nothing arrived on the stream for its idle timeout")

type idleKey struct{}

// withIdleTimeout returns a context for the request of a stream, which is given
// up once no byte of its answer has arrived for d. Comments that a server sends
// to keep a stream alive count as bytes.
func withIdleTimeout(ctx context.Context, d time.Duration) context.Context {
	return requesthint.WithStream(context.WithValue(ctx, idleKey{}, d))
}

// idleWatch cancels a request on which nothing has arrived in time. The nil
// watch does nothing.
type idleWatch struct {
	timeout time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

// watchIdle begins to watch the request that it returns, if the context asks
// for it.
func watchIdle(req *http.Request) (*http.Request, *idleWatch) {
	d, _ := req.Context().Value(idleKey{}).(time.Duration)
	if d <= 0 {
		return req, nil
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	w := &idleWatch{timeout: d, cancel: cancel}
	w.timer = time.AfterFunc(d, func() { cancel(errIdle) })
	return req.WithContext(ctx), w
}

// heard begins the wait anew. A watch that has fired or was stopped stays so.
func (w *idleWatch) heard() {
	if w.timer.Stop() {
		w.timer.Reset(w.timeout)
	}
}

// stop ends watching, and the request.
func (w *idleWatch) stop() {
	if w != nil {
		w.timer.Stop()
		w.cancel(nil)
	}
}

// watch returns body with its bytes and its end reported to the watch.
func (w *idleWatch) watch(body io.ReadCloser) io.ReadCloser {
	if w == nil {
		return body
	}
	w.heard()
	return &idleBody{ReadCloser: body, idle: w}
}

// idleBody reports to its watch when bytes arrive.
type idleBody struct {
	io.ReadCloser
	idle *idleWatch
}

func (b *idleBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.idle.heard()
	}
	return n, err
}

func (b *idleBody) Close() error {
	b.idle.stop()
	return b.ReadCloser.Close()
}
