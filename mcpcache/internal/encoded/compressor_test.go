package encoded

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	logobserver "go.uber.org/zap/zaptest/observer"
)

// text is a source of bytes that are kept in one piece.
type text string

// textOf returns so many bytes, which no text of another length has.
func textOf(size int) text { return text(strings.Repeat("word ", size/5+1)[:size]) }

func (t text) Digest() [32]byte { return sha256.Sum256([]byte(t)) }
func (t text) Size() int        { return len(t) }
func (t text) Whole() []byte    { return []byte(t) }

func (t text) AppendTo(dst []byte, framing Framing) []byte {
	if framing == Event {
		dst = append(dst, "data: "...)
	}
	return append(dst, t...)
}

// newSet returns a set that may take so many bytes.
func newSet(limit int64) *Set {
	s := NewSet()
	s.SetLimit(limit)
	return s
}

func TestCompressorEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(1 << 20)
		p := NewCompressor(s.Wanted(), zap.NewNop)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.Run(ctx)
		}()
		source := textOf(4000)
		body := s.Hold(source)
		s.Want(body, source, Plain, time.Now().Unix())
		synctest.Wait()
		if s.Find(body, source, Plain, time.Now().Unix()) == nil {
			t.Error("the body is not compressed")
		}
		cancel()
		<-ended
		// The encoders are let go of after a while; nothing runs until then.
		time.Sleep(time.Hour)
	})
}

// What goes wrong with one body is logged, and concerns that body only.
func TestCompressorSurvives(t *testing.T) {
	core, logs := logobserver.New(zap.DebugLevel)
	s := newSet(1 << 20)
	p := NewCompressor(s.Wanted(), func() *zap.Logger { return zap.New(core) })
	compress := func(ctx context.Context, size int) bool {
		source := textOf(size)
		body := s.Hold(source)
		s.Want(body, source, Plain, time.Now().Unix())
		p.Compress(ctx, <-s.Wanted())
		return s.Find(body, source, Plain, time.Now().Unix()) != nil
	}
	codec := p.codec
	p.codec = nil // it panics
	if compress(t.Context(), 5000) {
		t.Error("there are bytes that were not compressed")
	}
	if logs.FilterMessage("compressing an answer panicked").Len() != 1 {
		t.Errorf("logged %v", logs.All())
	}
	p.codec = codec
	if !compress(t.Context(), 6000) {
		t.Error("the next body was not compressed")
	}
	// An end in the middle of the work is not a failure.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	compress(ctx, 7000)
	if logs.Len() != 1 {
		t.Errorf("logged %v", logs.All())
	}
}
