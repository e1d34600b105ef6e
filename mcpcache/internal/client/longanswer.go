package client

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

// longAnswer keeps the long answer to one request of ours from the client library, which
// would have it in memory several times. The library is given one with the same id and
// an empty result instead.
type longAnswer struct {
	claim *claim
	limit int64 // of an answer, in bytes

	mu     sync.Mutex
	id     []byte // of the request that was answered, as written
	result []byte // nil if the answer was short
}

type longAnswerKey struct{}

// withLongAnswer returns a context for a request whose long answer is kept in a.
func withLongAnswer(ctx context.Context, a *longAnswer) context.Context {
	return context.WithValue(ctx, longAnswerKey{}, a)
}

// resultOf returns the result of the request with that context and id: the long one if
// it was kept, or else result, which the client library has returned.
func resultOf(ctx context.Context, id mcp.RequestId, result json.RawMessage) json.RawMessage {
	a, _ := ctx.Value(longAnswerKey{}).(*longAnswer)
	if a == nil {
		return result
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if asked, err := json.Marshal(id); err != nil || a.result == nil || !bytes.Equal(asked, a.id) {
		return result
	}
	return a.result
}

// errNoResult says what is wrong with a long message.
var errNoResult = errors.New("long message is neither a result nor an error")

// replace keeps a long message, and returns the short one that takes its place: of a
// notification, all but its params.
func (a *longAnswer) replace(data []byte) ([]byte, error) {
	response, err := message.ParseResponse(data)
	switch method := message.Method(data); {
	case err != nil && method != nil:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method), nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoResult, err)
	case response.Error != nil:
		text := response.Error.Message
		return message.AppendError(nil, response.ID, response.Error.Code, text[:min(len(text), MaxErrorText)]), nil
	}
	result := response.Result
	if len(data)-len(result) > len(data)/8 {
		result = bytes.Clone(result) // not to keep all the rest
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id, a.result = bytes.Clone(response.ID), result
	return append(message.AppendPrefix(nil, response.ID, -1, false), "}}"...), nil
}

// longAnswers is an [http.RoundTripper] that keeps long answers from the client library,
// see [longAnswer], and reads JSON answers whole.
type longAnswers struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l longAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK {
		return res, err
	}
	a, _ := req.Context().Value(longAnswerKey{}).(*longAnswer)
	b := longAnswerBody{ReadCloser: res.Body, ctx: req.Context(), answer: a, length: -1}
	switch media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); {
	case media == "application/json" && a == nil:
		res.Body = &oneMessage{ReadCloser: res.Body, ctx: req.Context()}
	case media == "application/json":
		if n, err := strconv.ParseInt(res.Header.Get("Content-Length"), 10, 64); err == nil && n >= 0 && n <= a.limit {
			b.length = n
		}
		b.fill = b.fillJSON
		res.Body = &b
	case media == "text/event-stream" && a != nil:
		b.atLineStart = true
		b.fill = b.fillEvents
		res.Body = &b
	}
	return res, nil
}
