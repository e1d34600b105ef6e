// Package requesthint carries hints from our MCP client to the transport, in the context of a
// request. One hint says that the answer is a stream. Another says that the request is for the
// upkeep of lists. [ErrUnreachable] is the transport's answer that it could not reach the
// upstream. So the client need not know that the transport is a Caddy handler.
//
// It knows nothing of MCP, of Caddy or of either of the two.
package requesthint

import (
	"context"
	"errors"
)

// ErrUnreachable says that the upstream took no connection or ended it without an
// answer: it may have been stopped, or started anew.
var ErrUnreachable = errors.New("upstream cannot be reached")

type streamKey struct{}

// WithStream returns a context for a request whose answer is a stream that is
// there to last. Once nobody reads it any more, it ends at once.
func WithStream(ctx context.Context) context.Context {
	return context.WithValue(ctx, streamKey{}, true)
}

type upkeepKey struct{}

// WithUpkeep returns a context for a request that keeps lists right, and nobody's own: an
// upstream that sleeps while it is not used may go on sleeping afterwards.
func WithUpkeep(ctx context.Context) context.Context {
	return context.WithValue(ctx, upkeepKey{}, true)
}

// IsUpkeep reports whether ctx, or one that it was made from, is of [WithUpkeep].
func IsUpkeep(ctx context.Context) bool { return ctx.Value(upkeepKey{}) != nil }

// IsStream reports whether ctx, or one that it was made from, is of [WithStream].
func IsStream(ctx context.Context) bool { return ctx.Value(streamKey{}) != nil }
