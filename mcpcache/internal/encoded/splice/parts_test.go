package splice

import (
	"errors"
	"testing"
)

// brokenWriter fails after a number of calls.
type brokenWriter struct {
	calls int
	err   error
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.calls == 0 {
		return 1, w.err
	}
	w.calls--
	return len(p), nil
}

func TestWriteToStopsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	p := Parts{Head: []byte("head"), Tail: []byte("tail"), Foot: []byte("foot")}
	for calls, want := range []int64{1, 5, 9} {
		n, err := p.WriteTo(&brokenWriter{calls: calls, err: broken})
		if n != want || !errors.Is(err, broken) {
			t.Errorf("after %d calls: WriteTo = %d, %v", calls, n, err)
		}
	}
}

func TestWriteToSkipsEmptyParts(t *testing.T) {
	w := &brokenWriter{calls: 2, err: errors.New("one call too many")}
	if n, err := (Parts{Head: []byte("head"), Tail: []byte("tail")}).WriteTo(w); n != 8 || err != nil {
		t.Errorf("WriteTo = %d, %v", n, err)
	}
}
