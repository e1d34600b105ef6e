package exchange

import (
	"context"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// lookupResult is the result of a lookup.
type lookupResult struct {
	// entry is the answer; nil if the request has to be forwarded.
	entry *cache.Entry
	// hasMemory is true if memory for the entry is reserved. [exchange.answer] releases it.
	hasMemory bool
	// stale is true if the entry is no longer fresh.
	stale bool
	// fetched is true if the entry was fetched for this caller, and for others who asked at the
	// same time.
	fetched bool
	// fallback is the stale answer if the upstream fails or takes too long; nil if there is none.
	fallback *cache.Entry
	// none is true if there is no copy at all, and nothing tells this caller apart from others
	// with the same credentials.
	none bool
	// reason is why there was no lookup, if there was none; understood with an entry from
	// memory.
	reason bypass
	// status is the Cache-Status of what the upstream has just answered, and is not kept
	// as such; "" of all else.
	status string
}

// asker is what a lookup has to know of who asks.
type asker struct {
	*admission.Caller // nil if nothing is known

	noticeSeen *admission.NoticeSeen
	pending    *admission.PendingChange
}

// lookup looks for an answer that this caller may be given; caller is nil if nothing
// is known of it. The question has been understood, and the client resolved. It
// may wait for a fetch.
func (x *search) lookup(ctx context.Context, caller *admission.Caller) lookupResult {
	if !x.admitted(caller) {
		return lookupResult{reason: bypassAdmission}
	}
	a := asker{Caller: caller}
	if caller != nil {
		caller.Return()
		a.noticeSeen, a.pending = caller.NoticeSeen(x.question.kind), caller.Pending(x.question.kind, x.arrived)
	}
	x.awaitChange(ctx, a)
	best, fresh := x.freshest(a)
	switch {
	case x.mayLackOwnChange(best, a), x.mayBeLost():
		return x.miss(best, a)
	case fresh:
		if f := x.backend.Feeds.Of(x.question.revision); f != nil && best == x.snapshot() {
			f.List(x.question.kind).Asked()
		}
		return x.checked(lookupResult{entry: best}, a)
	case best != nil && x.isExpired(best) && best == x.snapshot() && x.struggling():
		// The upstream does not deliver, so nobody waits for it. (Only of a list that
		// the feed fetches can that be known.)
		return x.checked(lookupResult{entry: best, stale: true}, a)
	}
	f := x.miss(best, a)
	e, late := x.fetch(ctx, best, f.fallback != nil, a)
	switch {
	case e != nil:
		return x.checked(lookupResult{entry: e, fetched: true}, a)
	case late && f.fallback != nil:
		return lookupResult{entry: f.fallback, stale: true}
	}
	f.none = best == nil && f.fallback == nil && a.noticeSeen == nil && a.pending == nil
	return f
}

// miss returns that the request is to be forwarded, and with which fallback.
func (x *search) miss(best *cache.Entry, a asker) lookupResult {
	if best == nil {
		// The list of clients of another variant is better than none.
		best = x.substitute()
	}
	if best == nil || !x.backend.Settings.Stale.MayStandIn(x.verdict(best, a)) {
		return lookupResult{}
	}
	return lookupResult{fallback: best}
}

// caller returns what is known of the session that asks, or of the authorization
// context if there is no session; nil if nothing is known, or if the session has
// used other credentials or another revision.
func (x *search) caller() *admission.Caller {
	ledger := x.backend.Admission
	if x.session == "" {
		return ledger.Context(x.context, x.question.revision)
	}
	c := ledger.Session(x.session)
	if c == nil || c.Context != x.context || c.Revision != x.question.revision {
		return nil
	}
	return c
}

// isSessionsOwn reports whether the list that the upstream gives in the session may not be what
// it gives others who ask for the same: another request has opened the session, or nobody knows
// which; or the session may have changed its list.
func (x *search) isSessionsOwn() bool {
	if x.session == "" {
		return false
	}
	session, known := x.backend.Admission.Session(x.session), false
	if session != nil {
		var opened cache.Asked
		if opened, known = session.Opened(); known && opened != x.context.Asked() {
			return true
		}
	}
	if x.context.AsksLikeFeed() || !x.context.HasNoCredentials() {
		return false // others get the feed's list, or have the same credentials
	}
	return !known || session.HasActed(x.question.kind)
}

// admitted reports whether this caller may be answered from the cache. With `admit
// all` everybody may, but a legacy request must still be one that the upstream would
// take: in a live session, or without one if the upstream has answered such a
// request.
func (x *search) admitted(caller *admission.Caller) bool {
	if x.backend.Settings.AdmitAll {
		return x.question.revision.Era() == revision.Modern || caller != nil && caller.Alive()
	}
	return caller != nil && caller.Admitted(x.question.kind, x.now)
}

// mayBeLost reports whether the upstream may have lost the session and has to be
// asked. It is not asked while it is known not to answer.
func (x *search) mayBeLost() bool {
	return x.session != "" && x.backend.Feeds.SuspectsSessions() && !x.backend.Hanging(x.now)
}

// awaitChange waits for the feed to fetch what a call of this caller may have
// changed: for a second at most, and only if the fetch is under way or about to
// begin.
func (x *search) awaitChange(ctx context.Context, a asker) {
	if a.pending == nil || a.pending.Misled {
		return
	}
	if f := x.backend.Feeds.Of(x.question.revision); f != nil && x.snapshot() != nil {
		ctx, cancel := context.WithTimeout(ctx, freshness.StalePatience)
		defer cancel()
		if a.pending.Silent {
			f.List(x.question.kind).AwaitCalled(ctx)
		}
		f.List(x.question.kind).Await(ctx, a.pending.Mark)
		x.now = time.Now()
	}
}

// mayLackOwnChange reports whether best may lack a change that this caller has made itself.
// Then the upstream has to answer, unless it is known not to.
func (x *search) mayLackOwnChange(best *cache.Entry, a asker) bool {
	switch {
	case a.pending == nil:
		return false
	case a.pending.Misled:
		return true
	case best != nil && best.Mark.AskedSince(a.pending.Mark):
		// The pending change stays while a notice may come: for another client of this caller, which has other
		// capabilities, the cache may have a list from before the call.
		if x.now.After(a.pending.Until) {
			a.ResolvePending(x.question.kind, a.pending)
		}
		return false
	}
	return !x.backend.Hanging(x.now)
}

// checked makes sure that a caller who has seen a notice on a stream of its own
// gets a list that has changed. Legacy lists may differ by session: if the list
// of its variant has not changed with the notice, the change was this session's
// own, and the upstream has to answer.
func (x *search) checked(f lookupResult, a asker) lookupResult {
	if a.noticeSeen == nil || x.session == "" {
		return f
	}
	own := a.Seen(x.question.kind)
	if own.Agrees(f.entry) && own.Mark.Since(a.noticeSeen.Mark) || own != nil && x.inVain(a, own, f.entry) {
		// The upstream has given it this very list since, or would.
		a.ResolveNotice(x.question.kind, a.noticeSeen)
		return f
	}
	if x.ownChange(a.noticeSeen, f.entry) {
		return lookupResult{reason: bypassChanged}
	}
	a.ResolveNotice(x.question.kind, a.noticeSeen)
	return f
}

// inVain reports whether the notice that a session has seen is one of many that announce no
// change (aspire#14375). e has been asked for since, and is what the upstream gave that session
// when it had last called a tool.
func (x *search) inVain(a asker, own *cache.Seen, e *cache.Entry) bool {
	k, f := x.question.kind, x.backend.Feeds.Of(x.question.revision)
	return own.Items == e.Body.ItemsDigest && e.Mark.Since(a.noticeSeen.Mark) && !a.noticeSeen.Differs &&
		!a.ActedSince(k, own.Mark) && f != nil && f.List(k).AnnouncesInVain()
}

// ownChange reports whether e may lack the change behind a notice, which was
// this session's own.
func (x *search) ownChange(notice *admission.NoticeSeen, e *cache.Entry) bool {
	return notice.Differs || !x.backend.Cache.ChangedWith(e, notice.Mark)
}

// snapshot returns the feed's snapshot, if it belongs to everybody or to this
// caller's authorization context.
func (x *search) snapshot() *cache.Entry {
	q := &x.question
	if q.detail != nil {
		return nil
	}
	e := x.catalog.List(q.revision, q.kind)
	if e == nil || !e.Partition.Admits(x.context) {
		return nil
	}
	return e
}

// substitute returns the feed's snapshot for a client of another variant, unless
// such clients are known to be shown another list.
func (x *search) substitute() *cache.Entry {
	q := &x.question
	if q.record != nil && q.record.Differed(q.revision, q.kind) {
		return nil
	}
	return x.snapshot()
}

// freshest returns the best entry for the question: the first fresh one that such a
// client may be given, or else the first one.
func (x *search) freshest(a asker) (best *cache.Entry, fresh bool) {
	c, q := x.backend.Cache, &x.question
	snapshot := x.snapshot()
	if snapshot != nil && x.shares(snapshot, a.Caller) {
		best = snapshot
	}
	if best != nil && c.Freshness(best, x.now) == cache.Fresh {
		return best, true
	}
	for _, partition := range [...]cache.Partition{x.context, x.context.Everybody()} {
		e := c.Get(q.in(partition))
		if e == nil {
			continue
		}
		shown := snapshot == nil && !x.isSharedApart(e) || q.record == nil || q.record.IsLatest(e, snapshot)
		if shown && c.Freshness(e, x.now) == cache.Fresh {
			return e, true
		}
		if best == nil {
			best = e
		}
	}
	return best, false
}

// isSharedApart reports whether e is for all who ask for the same as this caller, and for
// something else than the feed.
func (x *search) isSharedApart(e *cache.Entry) bool {
	return !x.context.AsksLikeFeed() && (e.Partition.IsPublic() || x.leftToFeed())
}

// in returns the cache's key for the question in a partition.
func (q *question) in(p cache.Partition) cache.Question {
	return cache.Question{Revision: q.revision, Kind: q.kind, Partition: p, Variant: q.variant, Detail: q.detail}
}

// isExpired reports whether e is only expired, not outdated, and may still be
// served stale. A list that is never fresh may not: the upstream wants to be asked
// each time.
func (x *search) isExpired(e *cache.Entry) bool {
	return e.Lifetime > 0 && x.backend.Settings.Stale.Of(x.backend.Cache, e, freshness.Told{}, x.now) == freshness.Expired
}

// struggling reports whether the feed of the question's revision fails to refresh
// the list.
func (x *search) struggling() bool {
	f := x.backend.Feeds.Of(x.question.revision)
	return f != nil && f.List(x.question.kind).Struggling()
}

// verdict says what may be done with e for this caller.
func (x *search) verdict(e *cache.Entry, a asker) freshness.Verdict {
	var told freshness.Told
	if a.noticeSeen != nil {
		told.Notice, told.Lacks = &a.noticeSeen.Mark, x.session != "" && x.ownChange(a.noticeSeen, e)
	}
	return x.backend.Settings.Stale.Of(x.backend.Cache, e, told, x.now)
}
