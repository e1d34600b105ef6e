package client

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// MaxReplies is how many answers to requests of the server each client sends at a time.
// A server has little to ask of us: a ping now and then.
const MaxReplies = 4

// replies bounds what a server can make us do with its requests. A request that comes
// while [MaxReplies] answers are being sent gets none, so that its stream is read on.
type replies struct {
	underWay atomic.Int32
	dropped  atomic.Int64 // requests that got no answer
}

// begin reports whether an answer may be sent. If so, end must follow.
func (r *replies) begin() bool {
	if r.underWay.Add(1) <= MaxReplies {
		return true
	}
	r.end()
	r.drop()
	return false
}

// end is called when an answer has been sent, or given up.
func (r *replies) end() { r.underWay.Add(-1) }

// drop counts a request that gets no answer.
func (r *replies) drop() { r.dropped.Add(1) }

// answer answers a request of the server that came within the answer to a request of
// ours, while that lasts. It returns at once.
func (s *Session) answer(ctx context.Context, id []byte, method string) {
	if !s.client.replies.begin() {
		return
	}
	go func() {
		defer s.client.replies.end()
		s.reply(ctx, appendReply(nil, id, method))
	}()
}

// maxWaiting is how many requests of a server in one session of a client wait until
// [MaxReplies] others have been answered.
const maxWaiting = 64

// Answer answers a request of the server that came to a client of ours within an answer:
// nobody there takes requests. It goes with those credentials of the client. A call may wait
// for it, so it waits for the slot in the background; what comes while [maxWaiting] wait gets
// no answer. Answer returns at once.
func (s *Session) Answer(credentials http.Header, id []byte, method string) {
	if s.waiting.Add(1) > maxWaiting {
		s.waiting.Add(-1)
		s.client.replies.drop()
		return
	}
	go func() {
		defer s.waiting.Add(-1)
		select {
		case s.replying <- struct{}{}:
			defer func() { <-s.replying }()
			s.reply(WithCredentials(s.life, credentials), appendReply(nil, id, method))
		case <-s.life.Done():
		}
	}()
}

// dropRequest counts the requests that reach the transport, because they are too large
// for [requestFilter]. They get no answer.
func (s *Session) dropRequest(context.Context, transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	s.client.replies.drop()
	return nil, nil //nolint:nilnil // the transport then sends nothing
}

// appendReply appends the answer to a request of the server: we offer
// nothing, so a ping is all there is.
func appendReply(dst, id []byte, method string) []byte {
	if method != string(mcp.MethodPing) {
		return jsonrpc.Invalid(jsonrpc.MethodNotFound, "method is not offered").Append(dst, id)
	}
	return append(message.AppendPrefix(dst, id, -1, false), "}}"...)
}
