package exchange

import (
	"bytes"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// learnAnswer takes the upstream's answer to a question.
func (l *learner) learnAnswer(r message.Response) {
	x := l.x
	q := &x.question
	if r.Error != nil {
		l.bar(r.Error.Code)
		if x.in.Message.Cursor != nil {
			// The cursor is no good any more, so neither are the other pages that
			// are kept by theirs (CACHE, "Pagination").
			x.backend.Cache.DropPages(q.kind)
		}
		return
	}
	page, err := message.ParsePage(r.Result, q.kind)
	if err != nil {
		return
	}
	l.admit()
	if page.Complete {
		x.keep(page)
	}
	x.returnScout()
}

// keep notes which list this caller was given, and keeps it for callers of the same
// authorization context. Others may share only what the feed has asked for: the
// answer to a client may repeat what that client sent.
func (x *exchange) keep(page *message.Page) {
	q := &x.question
	if x.isSessionsOwn() {
		x.resolveDoubt()
		return
	}
	body := message.Single(q.kind, page)
	snapshot := x.snapshot()
	x.learnSeen(page, body, snapshot)
	// Deferred: until this answer is kept, the caller must not get an older copy.
	defer x.resolveDoubt()
	lifetime := x.backend.Settings.Feed.Lifetime(q.kind, page.TTL, page.HasTTL)
	// Only its own session can get the rest of a legacy list.
	paged := page.NextCursor != nil && q.revision.Era() == revision.Legacy
	usable := lifetime > 0 && !paged && (q.kind != revision.Reads || page.HasTTL)
	x.noteKeeping(page, lifetime, usable)
	if !x.resolveNotice(page, body) || snapshot != nil && !x.hasOwn() {
		return
	}
	switch {
	case !usable:
		x.backend.Cache.Forget(q.in(x.context))
		return
	case x.leftToFeed():
		x.readForAll(page)
		return
	}
	x.backend.Cache.Put(&cache.Entry{
		Kind: q.kind, Revision: q.revision, Variant: q.variant, Detail: bytes.Clone(q.detail),
		Partition: x.context,
		Body:      body, Fetched: time.Now(), Lifetime: lifetime, Mark: q.mark,
	})
}

// hasOwn reports whether an answer to the question is already kept for this
// caller's credentials, which the new one has to replace.
func (x *exchange) hasOwn() bool {
	return !x.leftToFeed() && x.backend.Cache.Get(x.question.in(x.context)) != nil
}

// leftToFeed reports whether the cache keeps only the feed's answers for this caller: the caller has no credentials,
// and the feed can ask the same. The server's answer to the caller may repeat a header that does not count, such as
// X-Forwarded-Host, and others without credentials would be given it.
func (x *search) leftToFeed() bool {
	return x.context.IsAnonymous() || x.question.repeatable && x.context.HasNoCredentials()
}

// readForAll has the feed read a resource that an anonymous caller has read and
// that is public, so that others can be given it.
func (x *exchange) readForAll(page *message.Page) {
	q := &x.question
	f := x.backend.Feeds.Of(q.revision)
	if f == nil || x.backend.Settings.Feed.FeedOnly || x.context != cache.Anonymous && !q.repeatable || q.kind != revision.Reads || page.Scope != message.ScopePublic ||
		q.variant != (cache.Variant{}) && q.record == nil {
		return
	}
	f.Read(bytes.Clone(q.detail), x.r.Header.Get("Mcp-Name"), q.record)
}

// resolveDoubt records that the upstream has given this caller the list, which
// resolves doubts about it. A later page does not: the caller may still have the first one of another list.
func (x *exchange) resolveDoubt() {
	q := &x.question
	if caller := x.caller(); caller != nil && (q.detail == nil || q.kind == revision.Reads) {
		caller.Listed(q.kind, q.mark)
	}
}

// resolveNotice compares the answer to a session that has seen a notice with what
// others are given. If they are the same, the session is treated like others
// again; if not, the session has a list of its own, now and from then on. It
// reports whether the answer may be kept.
func (x *exchange) resolveNotice(page *message.Page, body *message.Body) bool {
	caller := x.caller()
	if caller == nil || x.session == "" {
		return true
	}
	q := &x.question
	notice := caller.NoticeSeen(q.kind)
	if notice == nil {
		return true
	}
	if page.NextCursor != nil {
		return false
	}
	own := &cache.Seen{Items: body.ItemsDigest, Mark: q.mark, At: time.Now(), ByClient: true}
	caller.See(q.kind, own)
	if !q.mark.Since(notice.Mark) {
		return false
	}
	switch reference := x.reference(caller); {
	case reference == nil || !x.backend.Cache.Current(q.kind, reference.Mark):
		return false // what others are given is not known yet
	case own.Agrees(reference):
		caller.ResolveNotice(q.kind, notice)
		return true
	}
	caller.Differ(q.kind, notice)
	return false
}

// reference returns what the session's caller would be given from the cache, or
// nil.
func (x *exchange) reference(caller *admission.Caller) *cache.Entry {
	if e := x.snapshot(); e != nil && x.shares(e, caller) {
		return e
	}
	for _, partition := range [...]cache.Partition{x.context, x.context.Everybody()} {
		if e := x.backend.Cache.Get(x.question.in(partition)); e != nil {
			return e
		}
	}
	return nil
}

// returnScout ends the wait of callers for what this exchange learns.
func (x *exchange) returnScout() {
	if x.scout != nil {
		x.scout.Land(struct{}{}, nil)
		x.scout = nil
	}
}
