package feed

import (
	"context"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// maxReplies is how many answers to requests of the server may be on their way
// at once, for each feed. A server has little to ask of a feed: a ping now and
// then.
const maxReplies = 4

// replies bounds what a server can make a feed do by asking for it. A request
// that comes while enough answers are on their way gets none: whoever reads the
// stream it came on reads on.
type replies struct {
	underWay atomic.Int32
	dropped  atomic.Int64 // requests that got no answer
}

// begin reports whether an answer may be sent. If so, end must follow.
func (r *replies) begin() bool {
	if r.underWay.Add(1) <= maxReplies {
		return true
	}
	r.end()
	r.drop()
	return false
}

func (r *replies) end() { r.underWay.Add(-1) }

// drop counts a request that gets no answer.
func (r *replies) drop() { r.dropped.Add(1) }

// asked answers a request of the server that came on the answer to a request
// of the feed, for no longer than that lasts. It returns at once.
func (s *session) asked(ctx context.Context, id []byte, method string) {
	if !s.replies.begin() {
		return
	}
	go func() {
		defer s.replies.end()
		s.reply(ctx, appendReply(nil, id, method))
	}()
}

// refuse takes the requests that are too large to be looked at on their way to
// the transport. They get no answer.
func (s *session) refuse(context.Context, transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	s.replies.drop()
	return nil, nil //nolint:nilnil // the transport then sends nothing
}

// appendReply appends the answer to a request of the server: the feed offers
// nothing, so a ping is all there is.
func appendReply(dst, id []byte, method string) []byte {
	if method != string(mcp.MethodPing) {
		return message.AppendError(dst, id, -32601, "method is not offered")
	}
	return append(message.AppendPrefix(dst, id, -1, false), "}}"...)
}
