package exchange

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// sayAgain is the least time between two log lines about a list whose ttlMs keeps
// becoming 0.
const sayAgain = time.Minute

// keeping remembers of each kind, at each revision, whether the last list that
// went to a client could be kept. Its zero value knows nothing.
type keeping [revision.Count][revision.NumKinds]struct {
	last atomic.Uint32
	said atomic.Int64 // when that was logged, in Unix nanoseconds
}

// What became of the last list.
const (
	keepingUnknown uint32 = iota
	keepingKept
	keepingNot
	keepingTTLZero
)

// noteKeeping notes whether the answer to a question could be kept. It logs when a
// list's ttlMs has become 0.
func (l *learner) noteKeeping(page *message.Page, lifetime time.Duration, kept bool) {
	q := &l.question
	if q.kind == revision.Reads {
		return // each resource has a ttlMs of its own, most have none
	}
	state := keepingNot
	switch {
	case page.HasTTL && lifetime == 0:
		state = keepingTTLZero
	case kept:
		state = keepingKept
	}
	note := &l.endpoint.keeping[q.revision][q.kind]
	if note.last.Load() == state || note.last.Swap(state) == state || state != keepingTTLZero {
		return
	}
	said := note.said.Load()
	if said != 0 && l.now.UnixNano()-said < int64(sayAgain) || !note.said.CompareAndSwap(said, l.now.UnixNano()) {
		return
	}
	l.endpoint.Logger.Info("list not kept, its ttlMs is 0: every request for it goes to the server; min_ttl would let it be kept",
		zap.Stringer("kind", q.kind), zap.Stringer("revision", q.revision))
}

// worthKeeping reports whether this caller is likely to be given the answer to a
// question again, as far as can be known before the answer has been read.
func (x *exchange) worthKeeping() bool {
	q := &x.question
	c := x.backend.Cache
	if q.kind == revision.Reads {
		return c.Get(q.in(x.context)) != nil // as it was the last time
	}
	if e := c.Pinned(q.revision, q.kind); e != nil {
		return e.Lifetime > 0
	}
	switch x.endpoint.keeping[q.revision][q.kind].last.Load() {
	case keepingUnknown:
		// Most upstreams of the legacy era give no ttlMs.
		return q.revision.Era() == revision.Legacy || x.backend.Settings.Feed.Of(q.kind).MinTTL > 0
	case keepingKept:
		return true
	}
	return false
}
