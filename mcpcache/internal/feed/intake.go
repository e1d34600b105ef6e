package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// intake takes in the long answer to one request of the feed. The client library
// would have it in memory several times, so it is given a short one instead: the
// same id, and an empty result.
type intake struct {
	ticket *ticket
	limit  int64 // of an answer, in bytes

	mu     sync.Mutex
	id     []byte // of the request that was answered, as written
	result []byte // nil if the answer was short
}

type intakeKey struct{}

// withIntake returns a context whose request has its long answer taken in by i.
func withIntake(ctx context.Context, i *intake) context.Context {
	return context.WithValue(ctx, intakeKey{}, i)
}

// takenIn returns the result of the request with that context and id: the one
// that was taken in, or the one that the client library has brought.
func takenIn(ctx context.Context, id mcp.RequestId, result json.RawMessage) json.RawMessage {
	i, _ := ctx.Value(intakeKey{}).(*intake)
	if i == nil {
		return result
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if asked, err := json.Marshal(id); err != nil || i.result == nil || !bytes.Equal(asked, i.id) {
		return result
	}
	return i.result
}

// errNoResult says what is wrong with a long message.
var errNoResult = errors.New("long message is neither a result nor an error")

// replace takes in a long message, and returns the short one to hand on instead:
// of a notification, all but its params.
func (i *intake) replace(data []byte) ([]byte, error) {
	response, err := message.ParseResponse(data)
	switch method := message.Method(data); {
	case err != nil && method != nil:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method), nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoResult, err)
	case response.Error != nil:
		text := response.Error.Message
		return message.AppendError(nil, response.ID, response.Error.Code, text[:min(len(text), maxErrorText)]), nil
	}
	result := response.Result
	if len(data)-len(result) > len(data)/8 {
		result = bytes.Clone(result) // not to keep all the rest
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.id, i.result = bytes.Clone(response.ID), result
	return append(message.AppendPrefix(nil, response.ID, -1, false), "}}"...), nil
}

// taking is an [http.RoundTripper] that has long answers taken in.
type taking struct{ http.RoundTripper }

func (t taking) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(req)
	i, _ := req.Context().Value(intakeKey{}).(*intake)
	if err != nil || i == nil {
		return res, err
	}
	b := intakeBody{ReadCloser: res.Body, ctx: req.Context(), intake: i, length: -1}
	switch media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media {
	case "application/json":
		if n, err := strconv.ParseInt(res.Header.Get("Content-Length"), 10, 64); err == nil && n >= 0 && n <= i.limit {
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
