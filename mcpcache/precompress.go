package mcpcache

import (
	"context"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/splice"
)

// maxAssembled is the largest buffer, in bytes, that is kept for putting
// bodies together.
const maxAssembled = 1 << 20

// precompressor compresses what the cache wants compressed, one body at a
// time. Answers are sent as they are until it is done.
type precompressor struct {
	cache  *cache.Cache
	codec  *splice.Codec
	logger func() *zap.Logger
	room   []byte
}

func newPrecompressor(c *cache.Cache, logger func() *zap.Logger) *precompressor {
	return &precompressor{cache: c, codec: new(splice.Codec), logger: logger}
}

// run compresses until ctx ends.
func (p *precompressor) run(ctx context.Context) {
	for {
		select {
		case wanted := <-p.cache.Wanted():
			p.compress(ctx, wanted)
		case <-ctx.Done():
			return
		}
	}
}

// compress compresses one body. What goes wrong concerns that body only.
func (p *precompressor) compress(ctx context.Context, wanted cache.Wanted) {
	done := false
	defer func() {
		if r := recover(); r != nil {
			p.logger().Error("compressing an answer panicked", zap.Any("panic", r), zap.Stack("stack"))
		}
		if !done {
			wanted.Fail()
		}
	}()
	if !wanted.Current() {
		return
	}
	body, room := wanted.Body(p.room[:0])
	if p.room = room; cap(room) > maxAssembled {
		p.room = nil
	}
	encoded, err := p.codec.Encode(ctx, body)
	if err != nil {
		if ctx.Err() == nil {
			p.logger().Error("answer cannot be compressed and is sent as it is", zap.Error(err))
		}
		return
	}
	wanted.Keep(encoded)
	done = true
}
