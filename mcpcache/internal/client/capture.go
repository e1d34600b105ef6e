package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// capture keeps the answer to one request of ours from the client library, which is given
// one with an empty result instead: it would have a long one in memory several times, and
// it reads what [message.ParseResponse] does not, by which clients are let in, or the other
// way round.
type capture struct {
	claim *claim
	limit int64 // of an answer, in bytes

	mu       sync.Mutex
	asked    []byte            // the id of the request
	response *message.Response // nil if it has not been answered
	ended    bool              // an event stream has ended without the answer
	unread   error             // why the last event that is no message could not be read
}

type captureKey struct{}

// withCapture returns a context for a request whose answer is kept in c.
func withCapture(ctx context.Context, c *capture) context.Context {
	return context.WithValue(ctx, captureKey{}, c)
}

// captureOf returns the capture of a request, nil if it has none.
func captureOf(ctx context.Context) *capture {
	c, _ := ctx.Value(captureKey{}).(*capture)
	return c
}

// awaitAnswer begins to wait for the answer to a request of that id.
func (c *capture) awaitAnswer(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.response = strconv.AppendInt(nil, id, 10), nil
}

// answer returns the result in the answer to the request, or why there is none. It can be
// asked once: a connection to the server keeps the context of its first request, and with it
// the capture.
func (c *capture) answer() (result []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	response := c.response
	c.response, c.asked = nil, nil
	switch {
	case response == nil && c.unread != nil:
		return nil, c.unread
	case response == nil:
		return nil, errEmpty
	case response.Error != nil && response.ID == nil:
		return nil, &unaddressedError{response.Error}
	case response.Error != nil:
		return nil, response.Error
	}
	return response.Result, nil
}

// unaddressedError is an error without an id, of whatever the server could not read: it says nothing about the method,
// so it is no [message.Error].
type unaddressedError struct{ rpc *message.Error }

func (e *unaddressedError) Error() string {
	return "the answer is an error without an id: " + e.rpc.Error()
}

// endStream notes that an event stream has ended.
func (c *capture) endStream() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = c.response == nil
}

// explain returns err, or what it means if the client library does not say.
func (c *capture) explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.ended || errors.Unwrap(err) != nil:
		return err
	case c.unread != nil:
		return c.unread
	}
	return errNoAnswer
}

// Reasons for which an answer cannot be used.
var (
	errUnreadable = errors.New("the answer cannot be read")
	errEmpty      = errors.New("the answer is empty")
	errNoAnswer   = errors.New("the event stream ended without an answer")
)

// skip notes an event in which there is no message. Whatever the client library takes it for,
// it is no answer.
func (c *capture) skip(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread = why
}

// replace takes a message, and returns what the client library is given in its place: of a
// long notification, all but its params. others says that it is the response to another request.
func (c *capture) replace(data []byte, long bool) (short []byte, others bool, err error) {
	response, err := message.ParseResponse(data)
	switch method := message.Method(data); {
	case err != nil && method != nil && long:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method), false, nil
	case err != nil && method != nil:
		return data, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	id, others := c.take(response, len(data))
	return append(message.AppendPrefix(nil, id, -1, false), "}}"...), others, nil
}

// take keeps a response if it is the first one to the request: an error without an id is,
// where the server has read none. It returns the id that the client library is to see, and whether it is another
// request's.
func (c *capture) take(response message.Response, size int) (id []byte, others bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if response.ID != nil && !bytes.Equal(response.ID, c.asked) {
		return response.ID, true
	}
	if c.response == nil {
		if size-len(response.Result) > size/8 {
			response.Result = bytes.Clone(response.Result) // not to keep all the rest
		}
		if failure := response.Error; failure != nil {
			failure.Message = failure.Message[:min(len(failure.Message), MaxErrorText)]
		}
		c.response = &response
	}
	return c.asked, false
}

// captures is an [http.RoundTripper] that keeps answers from the client library, see
// [capture].
type captures struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l captures) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(req)
	c := captureOf(req.Context())
	if err != nil || c == nil {
		return res, err
	}
	if res.StatusCode != http.StatusOK { // another success, which acknowledges a message
		_ = res.Body.Close()
		err := fmt.Errorf("%w: HTTP %d", errEmpty, res.StatusCode)
		fail(req.Context(), err)
		return nil, err
	}
	b := captureBody{ReadCloser: res.Body, ctx: req.Context(), capture: c, length: -1}
	switch media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media {
	case "application/json":
		if n, err := strconv.ParseInt(res.Header.Get("Content-Length"), 10, 64); err == nil && n >= 0 && n <= c.limit {
			b.length = n
		}
		b.fill = b.fillJSON
		res.Body = &b
	case "text/event-stream":
		b.atLineStart = true
		b.fill = b.fillEvents
		res.Body = &b
	}
	return res, nil
}
