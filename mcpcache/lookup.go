package mcpcache

import (
	"context"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// patience is how long a caller waits for a fetch that it shares with others
// before it goes to the upstream by itself.
const patience = 5 * time.Second

// found is what a look into the cache brings.
type found struct {
	// entry is to be answered with; nil if the request has to be forwarded.
	entry *cache.Entry
	// stale says that the entry is no longer fresh.
	stale bool
	// fetched says that the entry was fetched for this caller and those who
	// came with it.
	fetched bool
	// fallback may be answered with, as stale, if the upstream fails.
	fallback *cache.Entry
	// reason is why the cache was not asked, if it was not.
	reason bypass
}

// lookup answers an understood question from the cache if that can be done for
// this caller. It may wait for a fetch that is under way.
func (x *exchange) lookup() found {
	caller := x.caller()
	if !x.admitted(caller) {
		return found{reason: bypassDoor}
	}
	var told *admission.Told
	if caller != nil {
		told = caller.Told(x.question.kind)
	}
	pinned := x.pinned()
	best := x.freshest(pinned)
	if best != nil && x.h.shared.cache.Freshness(best, x.now) == cache.Fresh {
		return x.checked(found{entry: best}, caller, told)
	}
	if best != nil && x.expiredOnly(best) && x.struggling() {
		// The upstream does not deliver: nobody waits for it.
		return x.checked(found{entry: best, stale: true}, caller, told)
	}
	if e := x.demand(pinned); e != nil {
		return x.checked(found{entry: e, fetched: true}, caller, told)
	}
	if best == nil {
		// Rather the list that clients of other capabilities get than none.
		best = x.snapshot()
	}
	return found{fallback: x.fallback(best, told)}
}

// caller returns what is known of who asks: the session, or the authorization
// context where there is none. It is nil if nothing is known, or if what is
// known is of other credentials or another revision.
func (x *exchange) caller() *admission.Caller {
	memo := x.h.shared.admission
	if x.session == "" {
		return memo.Context(x.context, x.question.revision)
	}
	c := memo.Session(x.session)
	if c == nil || c.Context != x.context || c.Revision != x.question.revision {
		return nil
	}
	return c
}

// admitted reports whether this caller may be answered without the upstream.
// Without a door that is everybody, but a legacy request still has to be one
// that the upstream would take: of a session that lives, or without a session
// where it opens none.
func (x *exchange) admitted(caller *admission.Caller) bool {
	if x.h.settings.admitAll {
		return x.question.revision.Era() == revision.Modern || caller != nil && caller.Alive()
	}
	return caller != nil && caller.Admitted(x.now) || x.vouchedFor()
}

// vouchedFor reports whether the upstream has accepted the feed lately as the
// caller that this one is, without credentials and without a session, and has
// not refused such a caller since.
func (x *exchange) vouchedFor() bool {
	if x.h.guard != nil || x.session != "" || !x.context.IsAnonymous() {
		return false
	}
	r := x.question.revision
	e := x.h.shared.cache.Pinned(r, x.question.kind)
	memo := x.h.shared.admission
	if e == nil || !e.Sessionless || e.Age(x.now) >= x.h.settings.admitFor || memo.Refused(x.context, r) {
		return false
	}
	// A snapshot from before a restart may have no feed yet.
	if f := x.feed(); f == nil || f.Refused() {
		return false
	}
	memo.AdmitContext(x.context, r, memo.Ticket(), e.Fetched.Add(x.h.settings.admitFor))
	return true
}

// checked makes sure that a caller who was told of a change on a stream of its
// own gets a list that has changed. Legacy lists may differ by session: if the
// feed's list has not changed with the notice, the change was this session's
// own, and the upstream has to answer.
func (x *exchange) checked(f found, caller *admission.Caller, told *admission.Told) found {
	if told == nil || x.session == "" {
		return f
	}
	if x.ownChange(told, f.entry) {
		return found{reason: bypassTold}
	}
	caller.Settle(x.question.kind, told)
	return f
}

// ownChange reports whether e may lack what this session was told of: the
// change was its own.
func (x *exchange) ownChange(told *admission.Told, e *cache.Entry) bool {
	return told.Differs || !x.h.shared.cache.ChangedWith(e, told.Mark)
}

// snapshot returns the feed's snapshot, if it belongs to everybody or to this
// caller's authorization context.
func (x *exchange) snapshot() *cache.Entry {
	q := &x.question
	if q.detail != nil {
		return nil
	}
	e := x.h.shared.cache.Pinned(q.revision, q.kind)
	if e == nil || !e.Partition.Admits(x.context) {
		return nil
	}
	return e
}

// pinned returns the feed's snapshot, if it is also known to be what clients of
// this caller's capabilities are given.
func (x *exchange) pinned() *cache.Entry {
	e := x.snapshot()
	if e == nil || !x.h.shared.cache.Agrees(x.question.variant, e) {
		return nil
	}
	return e
}

// freshest returns the best entry for the question: the first fresh one, else
// the first one at all.
func (x *exchange) freshest(pinned *cache.Entry) *cache.Entry {
	c := x.h.shared.cache
	if pinned != nil && c.Freshness(pinned, x.now) == cache.Fresh {
		return pinned
	}
	best := pinned
	for _, partition := range [...]cache.Partition{x.context, cache.Public} {
		e := c.Get(x.question.in(partition))
		if e == nil {
			continue
		}
		if c.Freshness(e, x.now) == cache.Fresh {
			return e
		}
		if best == nil {
			best = e
		}
	}
	return best
}

// in returns the question as the cache knows it.
func (q *question) in(p cache.Partition) cache.Question {
	return cache.Question{Revision: q.revision, Kind: q.kind, Partition: p, Variant: q.variant, Detail: q.detail}
}

// expiredOnly reports whether all that is wrong with e is that its lifetime is
// over, and for no longer than a stale copy may be served. A list that never
// was fresh is not served that way: the upstream wants to be asked each time.
func (x *exchange) expiredOnly(e *cache.Entry) bool {
	return e.Lifetime > 0 && x.usableStale(e) && x.h.shared.cache.Freshness(e, x.now) == cache.Expired
}

// usableStale reports whether e may still be served when the upstream fails.
func (x *exchange) usableStale(e *cache.Entry) bool {
	return x.h.settings.staleIfError > 0 && -e.Left(x.now) < x.h.settings.staleIfError
}

// struggling reports whether the feed of the question's revision fails to keep
// it right.
func (x *exchange) struggling() bool {
	f := x.h.shared.feeds.Of(x.question.revision)
	return f != nil && f.Struggling(x.question.kind)
}

// fallback returns what may be served if the upstream fails now. Whoever was
// told of a change gets the failure rather than the list from before.
func (x *exchange) fallback(e *cache.Entry, told *admission.Told) *cache.Entry {
	if e == nil || !x.usableStale(e) {
		return nil
	}
	if told == nil || x.h.settings.staleAfterNotice {
		return e
	}
	outdated := x.h.shared.cache.Freshness(e, x.now) == cache.Outdated
	if outdated && !e.Mark.Since(told.Mark) || x.session != "" && x.ownChange(told, e) {
		return nil
	}
	return e
}

// demand has the feed bring the list as it is now, together with everybody
// else who asks for it, and returns it if this caller may be given it.
func (x *exchange) demand(pinned *cache.Entry) *cache.Entry {
	q := &x.question
	if q.detail != nil || q.kind == revision.Reads || pinned != nil && pinned.Lifetime == 0 {
		return nil
	}
	f := x.feed()
	if f == nil || !x.mayShare(f) {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), patience)
	defer cancel()
	x.awaitFeed(ctx, f)
	flight := f.Demand(q.kind, feed.Variant{Key: q.variant, Capabilities: q.capabilities})
	if flight == nil {
		return nil
	}
	e, err := flight.Wait(ctx)
	x.now = time.Now()
	if err != nil || e.Lifetime == 0 || !e.Partition.Admits(x.context) ||
		!flight.Since(q.mark) {
		return nil
	}
	return e
}

// feed returns the feed of the question's revision. A revision that nobody has
// asked for before gets one.
func (x *exchange) feed() *feed.Feed {
	feeds := x.h.shared.feeds
	if f := feeds.Of(x.question.revision); f != nil {
		return f
	}
	feeds.Start(x.question.revision)
	return feeds.Of(x.question.revision)
}

// mayShare reports whether what the feed is given could be given to this
// caller too.
func (x *exchange) mayShare(f *feed.Feed) bool {
	e := x.h.shared.cache.Pinned(x.question.revision, x.question.kind)
	if e != nil {
		return e.Partition.Admits(x.context)
	}
	return f.Owner() == x.context || x.h.settings.feed.PublicByDefault
}

// awaitFeed waits for a feed that has just been started to have tried.
func (x *exchange) awaitFeed(ctx context.Context, f *feed.Feed) {
	select {
	case <-f.Attempted():
		return
	default:
	}
	if x.h.settings.gate <= 0 {
		return
	}
	timer := time.NewTimer(x.h.settings.gate)
	defer timer.Stop()
	select {
	case <-f.Attempted():
	case <-timer.C:
	case <-ctx.Done():
	}
}
