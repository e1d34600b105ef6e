package cache

import (
	"bytes"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// Entry is one cached answer. It is immutable.
type Entry struct {
	Kind     revision.Kind
	Revision revision.Revision
	// Partition says who may be given the answer.
	Partition Partition
	// Variant is that of the clients that may be given the answer.
	Variant Variant
	// Detail tells answers to the same method apart: the raw cursor of a
	// page, the raw URI of a read. It is nil for a whole list.
	Detail []byte
	// Body is what the answer is spliced from.
	Body *message.Body
	// Fetched is when the answer arrived, Asked a time before a feed asked for it; zero if no
	// feed did.
	Fetched, Asked time.Time
	// Lifetime is how long the answer is fresh. 0: it never is.
	Lifetime time.Duration
	// Mark is from before the request for the answer was sent.
	Mark Mark

	// content has the bytes, if they are shared; Body then has none.
	content *content
	// view is whose callers are shown the list this way, and of the digest of the list as
	// it came. Both are zero for what came that way.
	view viewHash
	of   [32]byte
}

// Digest returns a digest of the body's bytes.
func (e *Entry) Digest() [32]byte { return e.Body.Digest }

// Size returns how many bytes the body has.
func (e *Entry) Size() int {
	if e.content != nil {
		return e.content.key.size
	}
	return len(e.Body.Bytes)
}

// Whole returns the bytes of the body, or nil if they are kept in parts.
func (e *Entry) Whole() []byte {
	if e.content != nil {
		return nil
	}
	return e.Body.Bytes
}

// EachPart calls f with the bytes of the body, part by part, until it returns
// an error.
func (e *Entry) EachPart(f func([]byte) error) error {
	if e.content != nil {
		return e.content.eachPart(f)
	}
	return f(e.Body.Bytes)
}

// AppendTo appends the body in that framing.
func (e *Entry) AppendTo(dst []byte, framing encoded.Framing) []byte {
	_ = e.EachPart(func(part []byte) error {
		if framing == encoded.Event {
			dst = sse.AppendData(dst, part)
		} else {
			dst = append(dst, part...)
		}
		return nil
	})
	if framing == encoded.Event {
		dst = append(dst, sse.End...)
	}
	return dst
}

// SizeIn returns how many bytes AppendTo appends.
func (e *Entry) SizeIn(framing encoded.Framing) int {
	if framing == encoded.Plain {
		return e.Size()
	}
	size := len(sse.End)
	_ = e.EachPart(func(part []byte) error {
		for found := true; found; {
			var line []byte
			if line, part, found = sse.CutLine(part); found {
				size += len(sse.NextLine)
			}
			size += len(line)
		}
		return nil
	})
	return size
}

// Mark is a moment in the order of changes, taken before a request is sent.
// An answer is only as new as its mark.
type Mark struct {
	epoch      uint64 // changes of the kind
	found      uint64 // those of them that another process has found, and no upstream announced
	pages      uint64 // times that a cursor turned out to be bad
	updates    uint64 // changes of single resources; of reads only
	suspicions uint64 // calls of [Changes.Suspect]
}

// Start returns the first mark of a process: that of stored snapshots whose lists had no
// announced change. The zero mark is earlier.
func Start() Mark { return Mark{epoch: firstEpoch} }

// firstEpoch is the epoch in which every kind begins.
const firstEpoch = 1

// BeforeStart reports whether m is the mark of a stored snapshot that was outdated
// before the process began. It is not known who has seen that notice.
func (m Mark) BeforeStart() bool { return m.epoch < firstEpoch }

// Since reports whether m is no earlier than other, of the same kind.
func (m Mark) Since(other Mark) bool { return m.epoch >= other.epoch && m.updates >= other.updates }

// AskedSince reports whether what has mark m was asked for after [Changes.Suspect]
// returned other.
func (m Mark) AskedSince(other Mark) bool { return m.suspicions >= other.suspicions && m.Since(other) }

// Announced counts the changes of the kind that were announced before m, or may have been.
func (m Mark) Announced() uint64 { return m.epoch - m.found }

// SameEpoch reports whether nothing was outdated between m and other.
func (m Mark) SameEpoch(other Mark) bool { return m.epoch == other.epoch }

// Age returns how long ago the entry was fetched, never less than 0.
func (e *Entry) Age(now time.Time) time.Duration { return max(now.Sub(e.Fetched), 0) }

// Left returns for how long the entry is still fresh; below zero, for how
// long it has not been.
func (e *Entry) Left(now time.Time) time.Duration { return e.Lifetime - e.Age(now) }

// entryOverhead is what an entry costs besides its bytes: the structs, the
// key that is kept with it and its place in the store, rounded up.
const entryOverhead = 448

// cost is what the entry costs in the bounded store, in bytes, besides what it shares
// with others.
func (e *Entry) cost() int64 {
	return entryOverhead + e.Body.Footprint() + 2*int64(len(e.Detail))
}

// newerThan reports whether e must not be replaced by other.
func (e *Entry) newerThan(other *Entry) bool {
	if e.Mark.epoch != other.Mark.epoch {
		return e.Mark.epoch > other.Mark.epoch
	}
	if !e.Asked.IsZero() && !other.Asked.IsZero() { // an answer may overtake one that was asked for before
		return e.Asked.After(other.Asked)
	}
	return e.Fetched.After(other.Fetched)
}

// appendKey appends the key under which the bounded store keeps e.
func (e *Entry) appendKey(dst []byte) []byte {
	return appendKey(dst, e.question())
}

// Question is what an entry is the answer to.
type Question struct {
	Revision  revision.Revision
	Kind      revision.Kind
	Partition Partition
	Variant   Variant
	Detail    []byte

	view viewHash
}

func (e *Entry) question() Question {
	return Question{e.Revision, e.Kind, e.Partition, e.Variant, e.Detail, e.view}
}

// Key returns bytes that no other question has.
func (q Question) Key() []byte { return appendKey(nil, q) }

// answers reports whether e is the answer to q.
func (e *Entry) answers(q Question) bool {
	return e.Revision == q.Revision && e.Kind == q.Kind && e.Partition == q.Partition && e.Variant == q.Variant && e.view == q.view &&
		(e.Detail == nil) == (q.Detail == nil) && bytes.Equal(e.Detail, q.Detail)
}

// appendKey appends the key of a question. All parts but the last have a fixed length,
// so different questions have different keys. An empty detail differs from none: an
// empty cursor is valid.
func appendKey(dst []byte, q Question) []byte {
	dst = append(dst, byte(q.Revision), byte(q.Kind))
	dst = append(q.Partition.append(dst), q.Variant[:]...)
	dst = append(dst, q.view[:]...)
	if q.Detail != nil {
		dst = append(append(dst, 1), q.Detail...)
	}
	return dst
}
