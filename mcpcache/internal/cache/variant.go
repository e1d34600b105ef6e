package cache

import "time"

// Variant stands for clients that an upstream is taken to show the same lists: those
// with the same capabilities, name and language. The zero value is the feed's own.
type Variant [8]byte

// Seen identifies the list that the upstream last gave to clients of a variant, or to
// one session. It is immutable.
type Seen struct {
	// Items is the list's [message.Body.ItemsDigest].
	Items [32]byte
	// Mark is from before the list was asked for.
	Mark Mark
	// At is when the list arrived.
	At time.Time
	// ByClient says that a client was given it, not the feed asking as one.
	ByClient bool
}

// Agrees reports whether e has the items that were seen, in the same epoch.
func (s *Seen) Agrees(e *Entry) bool {
	return s != nil && s.Mark.epoch == e.Mark.epoch && s.Items == e.Body.ItemsDigest
}

// Contradicts reports whether a client was given other items than those of e, in the
// same epoch.
func (s *Seen) Contradicts(e *Entry) bool {
	return s != nil && s.ByClient && s.Mark.epoch == e.Mark.epoch && s.Items != e.Body.ItemsDigest
}

// Differs reports whether other items than those of e were seen, in the same epoch and
// after e. If e came later, the list may have changed in between without a notice.
func (s *Seen) Differs(e *Entry) bool {
	return s != nil && s.Mark.epoch == e.Mark.epoch && s.Items != e.Body.ItemsDigest && s.At.After(e.Fetched)
}
