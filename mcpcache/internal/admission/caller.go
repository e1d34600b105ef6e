package admission

import (
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Caller is a session, or the callers of one authorization context.
type Caller struct {
	// Context is the authorization context whose credentials the upstream
	// has accepted.
	Context cache.Partition
	// Revision is the one that was negotiated.
	Revision revision.Revision

	until  atomic.Int64  // admitted until, Unix nanoseconds
	barred atomic.Uint64 // the ticket up to which admissions do not count

	told [revision.NumKinds]atomic.Pointer[Told]
}

// Told is what a caller knows of changes: a notice has passed on a stream of
// its own.
type Told struct {
	// Mark is the moment of the notice: what was fetched before it is not
	// what this caller was told of.
	Mark cache.Mark
	// Differs says that the change was this caller's own: it was announced
	// in the answer to a request of its own, or another list than the feed's
	// was given to it since.
	Differs bool
}

// Admitted reports whether the upstream's acceptance still counts.
func (c *Caller) Admitted(now time.Time) bool { return c.until.Load() > now.UnixNano() }

// admittedAbout reports whether the caller is admitted until that time already,
// or until a moment before. A longer admission has to be shortened.
func (c *Caller) admittedAbout(until time.Time) bool {
	later := until.UnixNano() - c.until.Load()
	return 0 <= later && later < int64(enough)
}

// Alive reports whether the upstream has accepted this caller at all, however
// long ago, and has not refused it or ended it since.
func (c *Caller) Alive() bool { return c.until.Load() != 0 }

// Tell records that this caller has been told of a change of k. A list that
// differs goes on to do so.
func (c *Caller) Tell(k revision.Kind, t Told) {
	for {
		earlier := c.told[k].Load()
		t.Differs = t.Differs || earlier != nil && earlier.Differs
		if c.told[k].CompareAndSwap(earlier, &t) {
			return
		}
	}
}

// Told returns the last change of k that this caller has been told of and that
// has not been settled since, or nil.
func (c *Caller) Told(k revision.Kind) *Told { return c.told[k].Load() }

// Settle forgets that change: what the caller would be given is what it was
// told of. A later one stays.
func (c *Caller) Settle(k revision.Kind, t *Told) { c.told[k].CompareAndSwap(t, nil) }

// Differ records that what the caller was told of is a change of its own: that
// the feed's list changes later settles nothing.
func (c *Caller) Differ(k revision.Kind, t *Told) {
	c.told[k].CompareAndSwap(t, &Told{Mark: t.Mark, Differs: true})
}
