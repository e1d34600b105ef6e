package budget

import (
	"bytes"
	"sync"
	"testing"
)

func TestLimit(t *testing.T) {
	b := New(smallShare)
	one, other := b.Share(), b.Share()
	if !one.Grow(smallShare-1) || other.Grow(2) || !other.Grow(1) {
		t.Error("not exactly the limit can be reserved")
	}
	if b.Used() != smallShare || one.size != smallShare-1 || other.size != 1 {
		t.Errorf("%d bytes are used, by %d and %d", b.Used(), one.size, other.size)
	}
	b.SetLimit(smallShare / 2)
	one.Release()
	if other.Grow(smallShare / 2) {
		t.Error("more than the new limit was reserved")
	}
	other.Release()
	other.Release()
	if b.Used() != 0 || !other.Grow(smallShare/2) {
		t.Error("not everything was given back")
	}
	var none Share
	if none.Grow(1) {
		t.Error("a share of nothing has got something")
	}
	none.Release()
}

// Whoever is large leaves a quarter to the small.
func TestLargeLeaveRoomForSmall(t *testing.T) {
	const limit = 16 * smallShare
	b := New(limit)
	large, small := b.Share(), b.Share()
	if large.Grow(limit/4*3+1) || !large.Grow(limit/4*3) || large.Grow(1) {
		t.Error("not exactly three quarters can be had by one")
	}
	if small.Grow(smallShare+1) || !small.Grow(smallShare) || small.Grow(1) {
		t.Error("not exactly a small share can be had of the rest")
	}
	large.Release()
	if !small.Grow(1) {
		t.Error("a share cannot become large")
	}
}

func TestConcurrentShares(t *testing.T) {
	const limit = 1 << 20
	b := New(limit)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range 200 {
				s := b.Share()
				buffer, ok := NewBuffer(&s, -1)
				for ok && buffer.Write(make([]byte, 1+i*37%chunkSize)) && buffer.Len() < limit/4 {
					if used := b.Used(); used > limit {
						t.Errorf("%d bytes are used of %d", used, limit)
						return
					}
				}
				s.Release()
			}
		})
	}
	workers.Wait()
	if b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
	}
}

func TestBuffer(t *testing.T) {
	want := make([]byte, 3*chunkSize+firstSize+7)
	for i := range want {
		want[i] = byte(i * 7)
	}
	for _, length := range []int64{-1, 0, 1, int64(len(want)) - 1, int64(len(want))} {
		for _, step := range []int{1000, chunkSize, len(want)} {
			b := New(1 << 20)
			s := b.Share()
			buffer, ok := NewBuffer(&s, length)
			if !ok {
				t.Fatal("no room")
			}
			for p := want; len(p) > 0; p = p[min(step, len(p)):] {
				if !buffer.Write(p[:min(step, len(p))]) {
					t.Fatal("no room")
				}
			}
			if got := buffer.Beginning(); !bytes.HasPrefix(want, got) {
				t.Error("it begins otherwise")
			}
			got, ok := buffer.Bytes()
			if !ok || !bytes.Equal(got, want) || buffer.Len() != len(want) {
				t.Errorf("length %d, step %d: got %d bytes, want %d", length, step, len(got), len(want))
			}
			if used := b.Used(); used != int64(cap(got)) {
				t.Errorf("length %d, step %d: %d bytes are reserved for %d", length, step, used, cap(got))
			}
			buffer.Reset()
			if !buffer.Write([]byte("again")) {
				t.Error("no room after a reset")
			}
			if got, _ := buffer.Bytes(); string(got) != "again" {
				t.Errorf("got %q after a reset", got)
			}
			s.Release()
			if b.Used() != 0 {
				t.Errorf("%d bytes are left", b.Used())
			}
		}
	}
}

// A buffer takes no more than there is, also when it is put together.
func TestBufferWithoutRoom(t *testing.T) {
	b := New(2 * smallShare)
	s := b.Share()
	if _, ok := NewBuffer(&s, 2*smallShare+1); ok || b.Used() != 0 {
		t.Error("more than all was reserved")
	}
	buffer, _ := NewBuffer(&s, -1)
	n := 0
	for buffer.Write(make([]byte, 1000)) {
		n += 1000
	}
	if used := b.Used(); used > b.limit.Load() || n < chunkSize {
		t.Errorf("%d bytes are used after %d", used, n)
	}
	if _, ok := buffer.Bytes(); ok {
		t.Error("it was put together although there is no room for that")
	}
	s.Release()
	if b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
	}
}

// Chunks that nobody uses do not add up, and are gone with the last share.
func TestSpareChunksAreBounded(t *testing.T) {
	const limit = 64 * chunkSize
	b := New(limit)
	other := b.Share()
	other.Grow(1)
	for range 3 {
		s := b.Share()
		buffer, _ := NewBuffer(&s, -1)
		for buffer.Len() < limit/2 {
			buffer.Write(make([]byte, chunkSize))
		}
		buffer.Reset()
		s.Release()
		if n := len(b.spare.chunks); n == 0 || n*chunkSize > limit/keptShare {
			t.Errorf("%d chunks are kept", n)
		}
	}
	other.Release()
	if n := len(b.spare.chunks); n != 0 {
		t.Errorf("%d chunks are kept although nothing is in progress", n)
	}
}
