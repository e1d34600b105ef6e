package encoded

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	logobserver "go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache/cachetest"
)

// newCache returns a cache that wants its answers compressed.
func newCache(t *testing.T) *cache.Cache {
	t.Helper()
	c, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	c.SetPrecompress(true)
	return c
}

func TestCompressorEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t)
		p := NewCompressor(c, zap.NewNop)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.Run(ctx)
		}()
		e := cachetest.Tools(t, 20)
		c.Pin(e)
		synctest.Wait()
		if c.Encoded(e, cache.Plain, time.Now()) == nil {
			t.Error("the snapshot is not compressed")
		}
		cancel()
		<-ended
		c.Close()
		// The encoders are let go of after a while; nothing runs until then.
		time.Sleep(time.Hour)
	})
}

// What goes wrong with one body is logged, and concerns that body only.
func TestCompressorSurvives(t *testing.T) {
	core, logs := logobserver.New(zap.DebugLevel)
	c := newCache(t)
	defer c.Close()
	p := NewCompressor(c, func() *zap.Logger { return zap.New(core) })
	compress := func(ctx context.Context, tools int) bool {
		e := cachetest.Tools(t, tools)
		c.Pin(e)
		p.Compress(ctx, <-c.Wanted())
		return c.Encoded(e, cache.Plain, time.Now()) != nil
	}
	codec := p.codec
	p.codec = nil // it panics
	if compress(t.Context(), 50) {
		t.Error("there are bytes that were not compressed")
	}
	if logs.FilterMessage("compressing an answer panicked").Len() != 1 {
		t.Errorf("logged %v", logs.All())
	}
	p.codec = codec
	if !compress(t.Context(), 60) {
		t.Error("the next list was not compressed")
	}
	// An end in the middle of the work is not a failure.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	compress(ctx, 70)
	if logs.Len() != 1 {
		t.Errorf("logged %v", logs.All())
	}
}
