package encoded

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded/splice"
)

// MaxWanted is how many bodies may wait to be compressed. One more is wanted again by the
// next request that could use it.
const MaxWanted = 64

// Set holds what is compressed, within a limit of its own. All methods may be
// called from several goroutines at once.
type Set struct {
	wanted chan Wanted
	on     atomic.Bool

	mu     sync.RWMutex
	limit  int64 // in bytes; 0: nothing is compressed
	total  int64
	bodies map[[32]byte]*Body
	swept  int64 // when idle bytes were last looked for
}

// NewSet returns a set that compresses nothing, see SetLimit.
func NewSet() *Set {
	return &Set{wanted: make(chan Wanted, MaxWanted), bodies: make(map[[32]byte]*Body)}
}

// Hold returns the body of those bytes, nil if they are too few. Each call must
// be followed by a Release.
func (s *Set) Hold(of Source) *Body {
	if of.Size() < LeastSize {
		return nil
	}
	digest := of.Digest()
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bodies[digest]
	if b == nil {
		b = &Body{digest: digest}
		s.bodies[digest] = b
	}
	b.refs++
	return b
}

// Release ends a Hold of b, which may be nil.
func (s *Set) Release(b *Body) {
	if b == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.refs--
	if b.refs == 0 {
		delete(s.bodies, b.digest)
		s.drop(b, func(*framed) bool { return true })
	}
}

// drop forgets the compressed bytes of b for which which returns true. The caller holds
// s.mu.
func (s *Set) drop(b *Body, which func(*framed) bool) {
	for i := range b.frames {
		f := &b.frames[i]
		if f.encoded.Load() != nil && which(f) {
			s.total -= f.size()
			f.encoded.Store(nil)
			f.next.Store(0)
		}
	}
}

// SetLimit changes how many bytes everything together may take. 0: nothing is
// compressed.
func (s *Set) SetLimit(limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = limit
	s.on.Store(limit > 0)
	if s.total > limit {
		for _, b := range s.bodies {
			s.drop(b, func(*framed) bool { return true })
		}
	}
}

// Held returns the body with that digest, or nil if nobody holds it.
func (s *Set) Held(digest [32]byte) *Body {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.bodies[digest]
}

// Find returns b compressed in that framing. If it is not compressed yet, Find returns nil
// and has that done from the source. now is in seconds.
func (s *Set) Find(b *Body, from Source, framing Framing, now int64) *splice.Encoded {
	f := &b.frames[framing]
	if encoded := f.encoded.Load(); encoded != nil {
		f.touch(now)
		return encoded
	}
	s.Want(b, from, framing, now)
	return nil
}

// Want has b compressed, unless that is under way or must not be done yet. now is in
// seconds.
func (s *Set) Want(b *Body, from Source, framing Framing, now int64) {
	f := &b.frames[framing]
	if !s.on.Load() || !f.claim(now) {
		return
	}
	select {
	case s.wanted <- Wanted{set: s, body: b, source: from, framing: framing}:
	default:
		f.next.Store(0)
	}
}

// Postpone keeps b, which may be nil, from being compressed before RestTime has passed, if
// nobody has wanted it yet.
func (s *Set) Postpone(b *Body, now time.Time) {
	if b == nil {
		return
	}
	for i := range b.frames {
		b.frames[i].next.CompareAndSwap(0, now.Add(RestTime).Unix())
	}
}

// put keeps compressed bytes, if somebody still holds b and there is room.
func (s *Set) put(b *Body, framing Framing, encoded *splice.Encoded, now int64) {
	f, size := &b.frames[framing], sizeOf(encoded)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.refs == 0 || f.encoded.Load() != nil || !s.makeRoom(size, now) {
		f.next.Store(now + int64(RetryTime/time.Second))
		return
	}
	s.total += size
	f.used.Store(now)
	f.encoded.Store(encoded)
}

// makeRoom reports whether so many bytes fit, and drops idle ones for them.
func (s *Set) makeRoom(size, now int64) bool {
	if s.total+size > s.limit && s.swept != now {
		s.swept = now
		for _, b := range s.bodies {
			s.drop(b, func(f *framed) bool { return f.idle(now) })
		}
	}
	return s.total+size <= s.limit
}

// Bytes returns how many bytes everything together takes.
func (s *Set) Bytes() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.total
}

// Wanted delivers the bodies that are to be compressed. Nothing is compressed
// unless somebody receives them.
func (s *Set) Wanted() <-chan Wanted { return s.wanted }

// Wanted is a body that is to be compressed. Whoever receives one has to call Keep or Fail.
type Wanted struct {
	set     *Set
	body    *Body
	source  Source
	framing Framing
}

// Current reports whether somebody still holds the body.
func (w Wanted) Current() bool {
	w.set.mu.RLock()
	defer w.set.mu.RUnlock()
	return w.body.refs > 0
}

// Body returns the bytes to compress. If they have to be put together, they
// are appended to buf, and grown is the buffer that can be used again.
func (w Wanted) Body(buf []byte) (body, grown []byte) {
	if whole := w.source.Whole(); whole != nil && w.framing == Plain {
		return whole, buf
	}
	grown = w.source.AppendTo(buf, w.framing)
	return grown, grown
}

// Keep has the compressed bytes used from now on, if somebody still holds the body and there
// is room.
func (w Wanted) Keep(encoded *splice.Encoded) {
	w.set.put(w.body, w.framing, encoded, time.Now().Unix())
}

// Fail says that the body could not be compressed. It is asked for again after
// a minute at the earliest.
func (w Wanted) Fail() {
	w.body.frames[w.framing].next.Store(time.Now().Add(RetryTime).Unix())
}
