// Package budget bounds the memory of work in progress. The work reserves bytes before it takes
// them, and releases them after it has let them go. Work that does not fit waits, or does without.
//
// The package is pure: it knows nothing of HTTP or of Caddy.
package budget

import "sync/atomic"

// Budget is a number of bytes that many share. Its methods may be called from
// several goroutines at once; none waits.
type Budget struct {
	limit, used atomic.Int64
	freed       atomic.Pointer[chan struct{}] // closed when there may be more room; nil: nobody waits
	spare       spare
}

// New returns a budget of so many bytes.
func New(limit int64) *Budget {
	b := new(Budget)
	b.SetLimit(limit)
	return b
}

// SetLimit changes how many bytes there are. What has been reserved stays so,
// even if that is more.
func (b *Budget) SetLimit(limit int64) {
	b.limit.Store(limit)
	b.wake()
}

// Limit returns how many bytes there are.
func (b *Budget) Limit() int64 { return b.limit.Load() }

// Largest returns how many bytes one share can have, if there is no other.
func (b *Budget) Largest() int64 { return max(smallShare, b.limit.Load()-b.left(leftToSmall)) }

// left returns how many bytes that part of all is.
func (b *Budget) left(free float64) int64 { return int64(free * float64(b.limit.Load())) }

// reserve takes n bytes and leaves that part of all free. It reports whether
// there were so many.
func (b *Budget) reserve(n int64, free float64) bool {
	limit := b.limit.Load() - b.left(free)
	for {
		used := b.used.Load()
		if n > limit-used {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (b *Budget) release(n int64) {
	if b.used.Add(-n) == 0 {
		b.dropSpare()
	}
	b.wake()
}

// wake has those look again who wait for room.
func (b *Budget) wake() {
	if b.freed.Load() == nil {
		return
	}
	if freed := b.freed.Swap(nil); freed != nil {
		close(*freed)
	}
}

// awaitRoom returns what is closed when there may be more room than there is now.
func (b *Budget) awaitRoom() <-chan struct{} {
	next := make(chan struct{})
	for {
		if freed := b.freed.Load(); freed != nil {
			return *freed
		}
		if b.freed.CompareAndSwap(nil, &next) {
			return next
		}
	}
}

// Used returns how many bytes are reserved.
func (b *Budget) Used() int64 { return b.used.Load() }
