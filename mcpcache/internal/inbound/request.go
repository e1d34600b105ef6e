// Package inbound reads the requests of clients: the body within its bounds, the message in the
// body, and the header fields that repeat parts of the message. A [Deviation] says how a request
// deviates from one that every server understands alike.
//
// The callers of the package decide what follows from a deviation. In front of one server they
// forward the request. In front of several servers, and in front of a program, they reject it. The
// package knows nothing of Caddy.
package inbound

import (
	"errors"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
)

// Request is one request of a client, as far as it was read. Nothing of the zero value was read.
type Request struct {
	Body Body
	// Share is the part of the memory for all requests that a long body takes.
	Share budget.Share
	// Message is what the body says, once it is decoded.
	Message message.Request
	// Method is the JSON-RPC method; "" if it is not known, or if the message has none.
	Method string
}

// ReadBeginning reads a body of at most limit bytes, or the beginning of a longer one. It does nothing if it
// was called before.
func (q *Request) ReadBeginning(r *http.Request, limit int64) error {
	if q.Body.Begun() {
		return nil
	}
	return q.Body.Read(r, limit)
}

// ReadRest reads the rest of a body of at most limit bytes. What it needs is taken from the share. The
// deviation is [TooLarge] or [NoRoom], if it is any. w is the way to the client's connection: a client that
// sends too slowly for the memory that it takes is cut off, with the error [ErrTooSlow]. If w is nil, it is
// not.
func (q *Request) ReadRest(w http.ResponseWriter, r *http.Request, limit int64) (Deviation, error) {
	if r.ContentLength > limit {
		return TooLarge, nil
	}
	switch err := q.Body.ReadOn(w, r, limit, &q.Share); {
	case errors.Is(err, ErrNoRoom):
		return NoRoom, nil
	case err != nil:
		return None, err
	case !q.Body.Whole:
		return TooLarge, nil
	}
	return None, nil
}

// Recall decodes the message if it is like one of the last lists that were asked for. It reports whether
// it is.
func (q *Request) Recall(known *message.Templates) bool {
	if !known.Recall(q.Body.Bytes, &q.Message) {
		return false
	}
	q.Method = outcome.NameOf(q.Message.Method)
	return true
}

// Decode takes the message apart, and remembers what it looks like. The deviation is [Batch], [Ambiguous] or
// [Invalid], if it is any; then err says more, in words for the client. known may be nil.
func (q *Request) Decode(known *message.Templates) (d Deviation, err error) {
	if known == nil {
		err = message.Decode(q.Body.Bytes, &q.Message)
	} else {
		err = known.Decode(q.Body.Bytes, &q.Message)
	}
	q.Method = outcome.NameOf(q.Message.Method)
	return deviationOf(err), err
}

// Decoded returns the message taken apart, also if nobody has decoded it yet. It returns nil if the body was
// not read as a whole, or is no valid message.
func (q *Request) Decoded() *message.Request {
	if q.Message.Method != nil {
		return &q.Message
	}
	decoded := new(message.Request)
	if !q.Body.Whole || message.Decode(q.Body.Bytes, decoded) != nil {
		return nil
	}
	return decoded
}

// Release gives back the memory of the body, and the message in it, unless something else holds on to the
// body.
func (q *Request) Release() {
	if q.Body.Release(); q.Body.Bytes == nil {
		q.Message = message.Request{}
	}
	q.Share.Release()
}
