package cache

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/splice"
)

// maxWanted is how many bodies may wait to be compressed. One that does not
// fit is asked for again by the next request that could use it.
const maxWanted = 64

// shelf holds the compressed forms of all entries, within a limit of its own.
type shelf struct {
	wanted chan Wanted
	on     atomic.Bool

	mu    sync.RWMutex
	limit int64 // in bytes; 0: nothing is compressed
	total int64
	forms map[[32]byte]*forms
	swept int64 // when idle forms were last looked for
}

func newShelf() *shelf {
	return &shelf{wanted: make(chan Wanted, maxWanted), forms: make(map[[32]byte]*forms)}
}

// hold returns the forms of e's bytes, nil if they are too few. Each call must
// be followed by a letGo.
func (s *shelf) hold(e *Entry) *forms {
	if e.Size() < LeastEncoded {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.forms[e.Body.Digest]
	if f == nil {
		f = &forms{digest: e.Body.Digest}
		s.forms[f.digest] = f
	}
	f.refs++
	return f
}

// letGo is called when an entry that has held f is gone.
func (s *shelf) letGo(f *forms) {
	if f == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.refs--
	if f.refs == 0 {
		delete(s.forms, f.digest)
		s.drop(f, func(*form) bool { return true })
	}
}

// drop forgets those forms that which tells to.
func (s *shelf) drop(f *forms, which func(*form) bool) {
	for i := range f.frames {
		form := &f.frames[i]
		if form.encoded.Load() != nil && which(form) {
			s.total -= form.size()
			form.encoded.Store(nil)
			form.next.Store(0)
		}
	}
}

// setLimit changes how many bytes all forms together may take.
func (s *shelf) setLimit(limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = limit
	s.on.Store(limit > 0)
	if s.total > limit {
		for _, f := range s.forms {
			s.drop(f, func(*form) bool { return true })
		}
	}
}

// of returns the forms of e's bytes that somebody holds, or nil.
func (s *shelf) of(e *Entry) *forms {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.forms[e.Body.Digest]
}

// find returns a form of e, or has it made.
func (s *shelf) find(e *Entry, f *forms, framing Framing, now int64) *splice.Encoded {
	form := &f.frames[framing]
	if encoded := form.encoded.Load(); encoded != nil {
		form.touch(now)
		return encoded
	}
	s.want(e, f, framing, now)
	return nil
}

// want asks for a form of e, unless that has been done or is of no use yet.
func (s *shelf) want(e *Entry, f *forms, framing Framing, now int64) {
	form := &f.frames[framing]
	if !s.on.Load() || !form.claim(now) {
		return
	}
	select {
	case s.wanted <- Wanted{shelf: s, entry: e, forms: f, framing: framing}:
	default:
		form.next.Store(0)
	}
}

// postpone keeps new forms, which may be nil, from being made before they have
// been of use for a while.
func (s *shelf) postpone(f *forms, now time.Time) {
	if f == nil {
		return
	}
	for i := range f.frames {
		f.frames[i].next.CompareAndSwap(0, now.Add(settleTime).Unix())
	}
}

// put keeps a form, if it is still of use and there is room.
func (s *shelf) put(f *forms, framing Framing, encoded *splice.Encoded, now int64) {
	form, size := &f.frames[framing], sizeOf(encoded)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.refs == 0 || form.encoded.Load() != nil || !s.makeRoom(size, now) {
		form.next.Store(now + int64(formsRetry/time.Second))
		return
	}
	s.total += size
	form.used.Store(now)
	form.encoded.Store(encoded)
}

// makeRoom reports whether so many bytes fit, and drops idle forms for them.
func (s *shelf) makeRoom(size, now int64) bool {
	if s.total+size > s.limit && s.swept != now {
		s.swept = now
		for _, f := range s.forms {
			s.drop(f, func(form *form) bool { return form.idle(now) })
		}
	}
	return s.total+size <= s.limit
}

// Wanted is a body that somebody could use in a compressed form. Whoever
// receives one has to call Keep or Fail.
type Wanted struct {
	shelf   *shelf
	entry   *Entry
	forms   *forms
	framing Framing
}

// Current reports whether there still is an entry with those bytes.
func (w Wanted) Current() bool {
	w.shelf.mu.RLock()
	defer w.shelf.mu.RUnlock()
	return w.forms.refs > 0
}

// Body returns the bytes to compress. If they have to be put together, they
// are appended to buf, and grown is the buffer that can be used again.
func (w Wanted) Body(buf []byte) (body, grown []byte) {
	if whole := w.entry.Whole(); whole != nil && w.framing == Plain {
		return whole, buf
	}
	grown = w.entry.AppendTo(buf, w.framing)
	return grown, grown
}

// Keep has the compressed forms used from now on. They may turn out to be of
// no use any more, or to have no room.
func (w Wanted) Keep(encoded *splice.Encoded) {
	w.shelf.put(w.forms, w.framing, encoded, time.Now().Unix())
}

// Fail says that the body could not be compressed. It is asked for again after
// a minute at the earliest.
func (w Wanted) Fail() {
	w.forms.frames[w.framing].next.Store(time.Now().Add(formsRetry).Unix())
}
