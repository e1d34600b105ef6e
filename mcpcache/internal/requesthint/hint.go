// Package requesthint is what our MCP client and the transport that carries its
// requests tell each other besides HTTP: that a request is for a stream, or for the
// upkeep of lists, and that the upstream could not be reached. So the client need not know that the
// transport is a Caddy handler.
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
