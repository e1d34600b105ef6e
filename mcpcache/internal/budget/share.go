package budget

import "context"

// smallShare is the size in bytes of a share that may take the last of a budget.
// Larger ones leave a quarter of it to the small ones: a few who work on what is
// long must not keep everybody from what is short.
const smallShare = 64 << 10

const leftToSmall = 0.25

// Share is what one piece of work has of a budget. The zero value has nothing
// and can get nothing. It may be used by one goroutine at a time.
type Share struct {
	of   *Budget
	size int64
}

// Share returns a share that is empty yet.
func (b *Budget) Share() Share { return Share{of: b} }

// Grow adds n bytes to the share. It reports whether there were so many.
func (s *Share) Grow(n int64) bool {
	free := 0.0
	if s.size+n > smallShare {
		free = leftToSmall
	}
	if s.of == nil || !s.of.reserve(n, free) {
		return false
	}
	s.size += n
	return true
}

// GrowSoon is Grow, but waits until there are so many bytes, or ctx ends.
func (s *Share) GrowSoon(ctx context.Context, n int64) bool {
	for s.of != nil {
		freed := s.of.awaitRoom() // before the look, so that nothing is missed
		if s.Grow(n) {
			return true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// Overdraw adds n bytes to the share, also if there are not so many. It is for a piece of work that would
// otherwise wait for another one, which waits for it.
func (s *Share) Overdraw(n int64) {
	if s.of != nil {
		s.of.used.Add(n)
		s.size += n
	}
}

// Size returns how many bytes the share has.
func (s *Share) Size() int64 { return s.size }

// shrink gives back n of the bytes.
func (s *Share) shrink(n int64) {
	s.of.release(n)
	s.size -= n
}

// Release gives all bytes back. It may be called more than once.
func (s *Share) Release() {
	if s.size != 0 {
		s.shrink(s.size)
	}
}
