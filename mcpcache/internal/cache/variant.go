package cache

import "time"

// Variant tells clients apart to which an upstream may show different lists
// although their credentials are the same: by what they can do, and by what they
// call themselves. The zero value is how the feed itself asks.
type Variant [8]byte

// Seen is the list that the upstream gave to clients of a variant, or to one
// session, when it last was asked. It is immutable.
type Seen struct {
	// Items is the list's [message.Body.ItemsDigest].
	Items [32]byte
	// Mark is what the cache said when the list was asked for.
	Mark Mark
	// At is when the list had arrived.
	At time.Time
	// ByClient says that a client itself was given it, not the feed that asked
	// as one.
	ByClient bool
}

// Agrees reports whether e has the items that were seen, both asked for since
// the same change.
func (s *Seen) Agrees(e *Entry) bool {
	return s != nil && s.Mark.epoch == e.Mark.epoch && s.Items == e.Body.ItemsDigest
}

// Contradicts reports whether a client was given other items than those of e,
// asked for since the same change.
func (s *Seen) Contradicts(e *Entry) bool {
	return s != nil && s.ByClient && s.Mark.epoch == e.Mark.epoch && s.Items != e.Body.ItemsDigest
}

// Differs reports whether other items than those of e were seen, both asked for
// since the same change, and e first. If e came later, the list may have changed
// in between without a notice.
func (s *Seen) Differs(e *Entry) bool {
	return s != nil && s.Mark.epoch == e.Mark.epoch && s.Items != e.Body.ItemsDigest && s.At.After(e.Fetched)
}
