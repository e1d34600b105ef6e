package exchange

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// recording is a copy of an answer on its way to the client. It takes its memory
// from the budget for work in progress; where that does not suffice, the answer is
// passed on all the same, and all that is learned is whether it is a result.
type recording struct {
	share  budget.Share
	buffer *budget.Buffer
	limit  int64
	length int64 // of the whole answer, -1 if unknown
	// stream says that it is an event stream; tail is the last few bytes of it.
	stream  bool
	tail    []byte
	answers func(message.Response) bool
	learn   func(message.Response)
	// unread says that there was no room to read the answer. Then either isResult is
	// set, or beginning has the first bytes of the message.
	unread    bool
	beginning []byte
	isResult  bool
}

// eventEnd is how many bytes the end of an event has at most.
const eventEnd = len("\r\n\r\n")

// newRecording begins to record an answer with that header, of at most limit bytes.
// learn is called with the response for which answers returns true, and may keep
// it. It returns nil if the answer cannot be recorded.
func newRecording(
	memory *budget.Budget, h http.Header, stream bool, limit int64,
	answers func(message.Response) bool, learn func(message.Response),
) *recording {
	length, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || length < 0 {
		length = -1
	}
	if length > limit || header.Coding(h) != "" {
		return nil
	}
	return &recording{share: memory.Share(), limit: limit, length: length, stream: stream, answers: answers, learn: learn}
}

// empty reports whether nothing of a message has been recorded.
func (r *recording) empty() bool { return r.buffer == nil || r.buffer.Len() == 0 }

// write adds a part of the answer. It returns false when the recording is over, or
// there is no room.
func (r *recording) write(p []byte) bool {
	if !r.add(p) {
		r.drop(p)
		return false
	}
	switch {
	case r.stream:
		// An event is read before it is passed on: the client may act on it at once.
		r.tail = append(r.tail, p[max(0, len(p)-eventEnd):]...)
		r.tail = append(r.tail[:0], r.tail[max(0, len(r.tail)-eventEnd):]...)
		return !sse.EndsEvent(r.tail) || !r.read(false)
	case int64(r.buffer.Len()) == r.length:
		r.read(true)
		return false
	}
	return true
}

// add adds to what is recorded, if there is room.
func (r *recording) add(p []byte) bool {
	if r.buffer == nil {
		var ok bool
		if r.buffer, ok = budget.NewBuffer(&r.share, r.length); !ok {
			r.buffer = nil
			return false
		}
	}
	return int64(r.buffer.Len()+len(p)) <= r.limit && r.buffer.Write(p)
}

// drop ends the recording unread, and keeps the beginning of the message. p is what
// follows what is recorded.
func (r *recording) drop(p []byte) {
	if !r.empty() {
		p = r.buffer.Beginning()
	}
	r.unread, r.beginning = true, bytes.Clone(p[:min(len(p), maxBeginning)])
	r.free()
}

// free gives back what the recording has taken.
func (r *recording) free() {
	r.buffer = nil
	r.share.Release()
}

// read reads what has been recorded; whole says that nothing will follow. It reports
// whether the recording is over.
func (r *recording) read(whole bool) (over bool) {
	if r.buffer == nil {
		return whole
	}
	data, ok := r.buffer.Bytes()
	if !ok {
		r.drop(nil)
		return true
	}
	var response message.Response
	found := func(data []byte) bool {
		var err error
		response, err = message.ParseResponse(data)
		return err == nil && r.answers(response)
	}
	var is bool
	if r.stream {
		is = sse.Take(data, found) != nil
	} else {
		is = found(data)
	}
	if !is && !whole {
		r.buffer.Reset() // not to be searched again
		return false
	}
	if is {
		r.hand(response, cap(data))
	}
	r.free()
	return true
}

// hand passes on a response, which is within a buffer of that size.
func (r *recording) hand(response message.Response, size int) {
	// Parsing it takes a table of the items, and keeping it another copy.
	if !r.share.Grow(message.TableSize(response.Result) + int64(len(response.Result))) {
		r.unread, r.isResult = true, response.Error == nil
		return
	}
	if size-len(response.Result) > size/8 {
		response.Result = bytes.Clone(response.Result) // not to keep all the rest
	}
	r.learn(response)
}
