// Package encoded handles content codings. It finds out which coding a client prefers, and which
// bodies are worth compressing. It compresses them in the background, and keeps the compressed
// bytes within a bound. The formats themselves are in the package splice below it.
//
// It knows nothing of Caddy, of requests and of what is in answers.
package encoded

import (
	"context"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded/splice"
)

// maxAssembled is the largest buffer, in bytes, that is kept for putting
// bodies together.
const maxAssembled = 1 << 20

// Compressor compresses the bodies that are wanted, one at a time. Their answers are sent
// uncompressed until it is done.
type Compressor struct {
	wanted <-chan Wanted
	codec  *splice.Codec
	logger func() *zap.Logger
	room   []byte
}

// NewCompressor returns a compressor of what is wanted. logger returns the logger for
// failures.
func NewCompressor(wanted <-chan Wanted, logger func() *zap.Logger) *Compressor {
	return &Compressor{wanted: wanted, codec: new(splice.Codec), logger: logger}
}

// Run compresses until ctx ends.
func (c *Compressor) Run(ctx context.Context) {
	defer c.codec.Release() // each reload begins another one
	for {
		select {
		case wanted := <-c.wanted:
			c.Compress(ctx, wanted)
		case <-ctx.Done():
			return
		}
	}
}

// Compress compresses one body. A failure or panic concerns that body only.
func (c *Compressor) Compress(ctx context.Context, wanted Wanted) {
	done := false
	defer func() {
		if r := recover(); r != nil {
			c.logger().Error("compressing an answer panicked", zap.Any("panic", r), zap.Stack("stack"))
		}
		if !done {
			wanted.Fail()
		}
	}()
	if !wanted.Current() {
		return
	}
	body, room := wanted.Body(c.room[:0])
	if c.room = room; cap(room) > maxAssembled {
		c.room = nil
	}
	encoded, err := c.codec.Encode(ctx, body)
	if err != nil {
		if ctx.Err() == nil {
			c.logger().Error("answer cannot be compressed and is sent as it is", zap.Error(err))
		}
		return
	}
	wanted.Keep(encoded)
	done = true
}
