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

	// until is when the admission of the caller ends, discover when that to
	// server/discover does if it is later, in Unix nanoseconds.
	until, discover atomic.Int64
	// refused are the kinds that the upstream has refused and not answered since, a
	// [revision.KindSet].
	refused atomic.Uint32

	let     atomic.Uint64 // the ticket of the last request whose answer let it in
	revoked atomic.Uint64 // answers with tickets up to this one do not admit
	// heard is when the upstream last answered in the session, kept when it was last sent a
	// request for no other reason, in Unix nanoseconds.
	heard, kept atomic.Int64
	ledger      *Ledger // nil for callers without a session

	// variant is nil while it is not known. opened is what the request asked for that opened
	// the session, nil if that is not known.
	variant atomic.Pointer[cache.Variant]
	opened  atomic.Pointer[cache.Asked]

	noticesSeen [revision.NumKinds]atomic.Pointer[NoticeSeen]
	pending     [revision.NumKinds]atomic.Pointer[PendingChange]
	acted       [revision.NumKinds]atomic.Pointer[PendingChange] // the last one, which stays
	seen        [revision.NumKinds]atomic.Pointer[cache.Seen]

	returned atomic.Bool
}

// NoticeSeen is a change notice that has passed to a caller, on a stream of its
// own.
type NoticeSeen struct {
	// Mark is the moment of the notice: what was fetched before it lacks the
	// change.
	Mark cache.Mark
	// Differs says that the change was this caller's own: the notice came in the
	// answer to a request of its own, or the upstream has since given it another
	// list than the feed's.
	Differs bool
}

// PendingChange says that the caller may have changed a list itself. The list may be fresh for
// everybody else, and lack the caller's own change.
type PendingChange struct {
	// Mark is the moment of the change. A list that was asked for since has it.
	Mark cache.Mark
	// Misled is true if the upstream refused a call that the caller had made by the list. It
	// lasts until the upstream has answered the caller with a list. Silent is true if a call may
	// have changed the list, and the upstream does not announce such changes. It lasts until the
	// cache has a list that was asked for since.
	Misled, Silent bool
	// Until is the time by which a notice of the change would have come. Before that, an older
	// copy may be fresh for everybody else.
	Until time.Time
}

// after returns this change together with an earlier one.
func (d PendingChange) after(earlier *PendingChange) PendingChange {
	if earlier != nil {
		d.Misled, d.Silent = d.Misled || earlier.Misled, d.Silent || earlier.Silent
		if d.Until.Before(earlier.Until) {
			d.Until = earlier.Until
		}
	}
	return d
}

// Admitted reports whether the upstream's acceptance still counts for a list of
// k.
func (c *Caller) Admitted(k revision.Kind, now time.Time) bool {
	until := c.until.Load()
	if k == revision.Discover {
		until = max(until, c.discover.Load())
	}
	return until > now.UnixNano() && !c.Refused().Has(k) && c.known()
}

// Refused returns the kinds that the upstream has refused to the caller and not
// answered since.
func (c *Caller) Refused() revision.KindSet { return revision.KindSet(c.refused.Load()) }

// onlyDiscover is the set of the kinds of server/discover.
const onlyDiscover = revision.KindSet(1 << revision.Discover)

// admittedTo returns the end of the admission that an answer of those kinds
// grants.
func (c *Caller) admittedTo(answered revision.KindSet) *atomic.Int64 {
	if answered == onlyDiscover {
		return &c.discover
	}
	return &c.until
}

// revoke ends the caller's admission after a refusal of those kinds. With alone it ends the
// admission to these kinds, otherwise to everything. The caller of revoke holds the ledger's lock.
func (c *Caller) revoke(now uint64, kinds revision.KindSet, alone bool) {
	c.revoked.Store(now)
	c.refused.Or(uint32(kinds))
	if !alone {
		c.until.Store(0)
	}
	if kinds == 0 || kinds.Has(revision.Discover) {
		c.discover.Store(0)
	}
}

func (c *Caller) refusal() refusal { return refusal{c.revoked.Load(), c.Refused()} }

// restore takes over what was known of refusals of the caller.
func (c *Caller) restore(known refusal) {
	c.revoked.Store(known.revoked)
	c.refused.Store(uint32(known.kinds))
}

// known reports whether the upstream has lost no sessions since it let this one
// in.
func (c *Caller) known() bool { return c.ledger == nil || c.let.Load() > c.ledger.lost.Load() }

// admittedAbout reports whether the admission that an answer of those kinds grants
// ends at that time already, or a moment before. A longer one has to be shortened.
func (c *Caller) admittedAbout(answered revision.KindSet, until time.Time) bool {
	later := until.UnixNano() - c.admittedTo(answered).Load()
	return 0 <= later && later < int64(enough) && c.Refused()&answered == 0 && c.known()
}

// Alive reports whether the upstream has ever let this caller in to lists, and has
// not refused it, ended it or lost it since.
func (c *Caller) Alive() bool { return c.until.Load() != 0 && c.known() }

// Variant returns the variant of a session's client; false if its initialize has
// not been seen.
func (c *Caller) Variant() (cache.Variant, bool) {
	if v := c.variant.Load(); v != nil {
		return *v, true
	}
	return cache.Variant{}, false
}

// inherit takes over what is known of the same session with other credentials.
func (c *Caller) inherit(from *Caller) {
	c.let.Store(from.let.Load())
	c.variant.Store(from.variant.Load())
	c.opened.Store(from.opened.Load())
	c.heard.Store(from.heard.Load())
	for k := range from.noticesSeen {
		c.noticesSeen[k].Store(from.noticesSeen[k].Load())
		c.pending[k].Store(from.pending[k].Load())
		c.acted[k].Store(from.acted[k].Load())
	}
}

// NotePending records that the caller may have changed a list of k. It keeps d, and adds the
// earlier changes to it.
func (c *Caller) NotePending(k revision.Kind, d *PendingChange) {
	given := *d
	for {
		earlier := c.pending[k].Load()
		*d = given.after(earlier)
		if c.pending[k].CompareAndSwap(earlier, d) {
			c.acted[k].Store(d)
			return
		}
	}
}

// Opened returns what the request asked for that opened the session. It returns false if that
// is not known.
func (c *Caller) Opened() (asked cache.Asked, known bool) {
	opened := c.opened.Load()
	if opened == nil {
		return cache.Asked{}, false
	}
	return *opened, true
}

// HasActed reports whether the caller has ever made a call that may have changed a list.
func (c *Caller) HasActed(k revision.Kind) bool { return c.acted[k].Load() != nil }

// ActedSince reports whether the caller has done anything by which a list of k may have
// changed, and an answer that was asked for at m may lack that.
func (c *Caller) ActedSince(k revision.Kind, m cache.Mark) bool {
	d := c.acted[k].Load()
	return d != nil && !m.AskedSince(d.Mark)
}

// Pending returns the change that the caller may have made to a list of k, or nil.
func (c *Caller) Pending(k revision.Kind, now time.Time) *PendingChange {
	d := c.pending[k].Load()
	if d != nil && !d.Misled && !d.Silent && now.After(d.Until) {
		c.ResolvePending(k, d)
		return nil
	}
	return d
}

// Listed records that the upstream has given the caller a list of k that was asked
// for at m.
func (c *Caller) Listed(k revision.Kind, m cache.Mark) {
	if d := c.pending[k].Load(); d != nil && m.AskedSince(d.Mark) {
		c.pending[k].CompareAndSwap(d, &PendingChange{Mark: d.Mark, Silent: d.Silent, Until: d.Until})
	}
}

// ResolvePending forgets a pending change. A later one stays.
func (c *Caller) ResolvePending(k revision.Kind, d *PendingChange) {
	c.pending[k].CompareAndSwap(d, nil)
}

// See records which list of k the upstream gave to this caller. It is of use for a
// session whose variant is not known.
func (c *Caller) See(k revision.Kind, s *cache.Seen) { c.seen[k].Store(s) }

// Seen returns which list of k the upstream last gave to this caller, or nil.
func (c *Caller) Seen(k revision.Kind) *cache.Seen { return c.seen[k].Load() }

// Return records that the caller has come again while it was admitted.
func (c *Caller) Return() {
	if !c.returned.Load() { // others read it all the time
		c.returned.Store(true)
	}
}

// Returned reports whether the caller has come again while it was admitted.
func (c *Caller) Returned() bool { return c.returned.Load() }

// SeeNotice records that a notice about k has passed to this caller. Differs
// stays set once an earlier notice had it.
func (c *Caller) SeeNotice(k revision.Kind, n NoticeSeen) {
	for {
		earlier := c.noticesSeen[k].Load()
		n.Differs = n.Differs || earlier != nil && earlier.Differs
		if c.noticesSeen[k].CompareAndSwap(earlier, &n) {
			return
		}
	}
}

// NoticeSeen returns the last notice about k that this caller has seen, or nil
// if there was none or it has been resolved.
func (c *Caller) NoticeSeen(k revision.Kind) *NoticeSeen { return c.noticesSeen[k].Load() }

// ResolveNotice forgets a notice: the list that the caller would be given has
// the change. A later notice stays.
func (c *Caller) ResolveNotice(k revision.Kind, n *NoticeSeen) {
	c.noticesSeen[k].CompareAndSwap(n, nil)
}

// Differ records that the change behind a notice was this caller's own: a later
// change of the feed's list does not resolve it.
func (c *Caller) Differ(k revision.Kind, n *NoticeSeen) {
	c.noticesSeen[k].CompareAndSwap(n, &NoticeSeen{Mark: n.Mark, Differs: true})
}
