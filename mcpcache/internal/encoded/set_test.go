package encoded

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
)

// A body is held as long as anybody holds it, and what was compressed of it is
// forgotten with it.
func TestBodiesAreShared(t *testing.T) {
	s := newSet(1 << 20)
	source := textOf(4000)
	one, two := s.Hold(source), s.Hold(textOf(4000))
	if one != two || !one.Is(source.Digest()) || s.Held(source.Digest()) != one {
		t.Fatal("the same bytes are two bodies")
	}
	now := time.Now().Unix()
	for _, framing := range []Framing{Plain, Event} {
		if s.Find(one, source, framing, now) != nil {
			t.Errorf("framing %d is there already", framing)
		}
		NewCompressor(s.Wanted(), zap.NewNop).Compress(context.Background(), <-s.Wanted())
		if s.Find(two, source, framing, now) == nil {
			t.Errorf("framing %d is not there", framing)
		}
	}
	if s.Bytes() < 2*Overhead {
		t.Errorf("takes %d bytes", s.Bytes())
	}
	s.Release(one)
	if s.Held(source.Digest()) == nil {
		t.Error("forgotten while somebody holds it")
	}
	s.Release(two)
	s.Release(nil)
	if s.Held(source.Digest()) != nil || s.Bytes() != 0 {
		t.Errorf("takes %d bytes that nobody holds", s.Bytes())
	}
	if s.Hold(textOf(LeastSize-1)) != nil || s.Hold(textOf(LeastSize)) == nil {
		t.Errorf("not every body of %d bytes is held, and no smaller one", LeastSize)
	}
}
