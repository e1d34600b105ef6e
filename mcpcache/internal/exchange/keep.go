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
	q := &l.question
	if r.Error != nil {
		l.revoke(r.Error.Code)
		if l.in.Message.Cursor != nil {
			// The cursor is no good any more, so neither are the other pages that
			// are kept by theirs (CACHE, "Pagination").
			l.backend.Cache.DropPages(q.kind)
		}
		return
	}
	page, err := message.ParsePage(r.Result, q.kind)
	if err != nil {
		return
	}
	l.admit()
	if page.Complete {
		l.keep(page)
	}
	l.returnScout()
}

// keep notes which list this caller was given, and keeps it for callers of the same
// authorization context. Others may share only what the feed has asked for: the
// answer to a client may repeat what that client sent.
func (l *learner) keep(page *message.Page) {
	q := &l.question
	if l.isSessionsOwn() {
		l.resolvePending()
		return
	}
	body := message.Single(q.kind, page)
	snapshot := l.snapshot()
	l.learnSeen(page, body, snapshot)
	// Deferred: until this answer is kept, the caller must not get an older copy.
	defer l.resolvePending()
	lifetime := l.backend.Settings.Feed.Lifetime(q.kind, page.TTL, page.HasTTL)
	// Only its own session can get the rest of a legacy list.
	paged := page.NextCursor != nil && q.revision.Era() == revision.Legacy
	usable := lifetime > 0 && !paged && (q.kind != revision.Reads || page.HasTTL)
	l.noteKeeping(page, lifetime, usable)
	if !l.resolveNotice(page, body) || snapshot != nil && !l.hasOwn() {
		return
	}
	switch {
	case !usable:
		l.backend.Cache.Forget(q.in(l.context))
		return
	case l.leftToFeed():
		l.readForAll(page)
		return
	}
	l.backend.Cache.Put(&cache.Entry{
		Kind: q.kind, Revision: q.revision, Variant: q.variant, Detail: bytes.Clone(q.detail),
		Partition: l.context,
		Body:      body, Fetched: time.Now(), Lifetime: lifetime, Mark: q.mark,
	})
}

// hasOwn reports whether an answer to the question is already kept for this
// caller's credentials, which the new one has to replace.
func (l *learner) hasOwn() bool {
	return !l.leftToFeed() && l.backend.Cache.Get(l.question.in(l.context)) != nil
}

// leftToFeed reports whether the cache keeps only the feed's answers for this caller: the caller has no credentials,
// and the feed can ask the same. The server's answer to the caller may repeat a header that does not count, such as
// X-Forwarded-Host, and others without credentials would be given it.
func (x *search) leftToFeed() bool {
	return x.context.IsAnonymous() || x.question.repeatable && x.context.HasNoCredentials()
}

// readForAll has the feed read a resource that an anonymous caller has read and
// that is public, so that others can be given it.
func (l *learner) readForAll(page *message.Page) {
	q := &l.question
	f := l.backend.Feeds.Of(q.revision)
	if f == nil || l.backend.Settings.Feed.FeedOnly || l.context != cache.Anonymous && !q.repeatable || q.kind != revision.Reads || page.Scope != message.ScopePublic ||
		q.variant != (cache.Variant{}) && q.record == nil {
		return
	}
	f.Read(bytes.Clone(q.detail), l.r.Header.Get("Mcp-Name"), q.record)
}

// resolvePending records that the upstream has given this caller the list, which
// resolves the caller's pending changes. A later page does not resolve them: the caller may still
// have the first page of another list.
func (l *learner) resolvePending() {
	q := &l.question
	if caller := l.caller(); caller != nil && (q.detail == nil || q.kind == revision.Reads) {
		caller.Listed(q.kind, q.mark)
	}
}

// resolveNotice compares the answer to a session that has seen a notice with what
// others are given. If they are the same, the session is treated like others
// again; if not, the session has a list of its own, now and from then on. It
// reports whether the answer may be kept.
func (l *learner) resolveNotice(page *message.Page, body *message.Body) bool {
	caller := l.caller()
	if caller == nil || l.session == "" {
		return true
	}
	q := &l.question
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
	switch reference := l.reference(caller); {
	case reference == nil || !l.backend.Cache.Current(q.kind, reference.Mark):
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
func (l *learner) reference(caller *admission.Caller) *cache.Entry {
	if e := l.snapshot(); e != nil && l.shares(e, caller) {
		return e
	}
	for _, partition := range [...]cache.Partition{l.context, l.context.Everybody()} {
		if e := l.backend.Cache.Get(l.question.in(partition)); e != nil {
			return e
		}
	}
	return nil
}

// returnScout ends the wait of callers for what this exchange learns.
func (x *search) returnScout() {
	if x.scout != nil {
		x.scout.Land(struct{}{}, nil)
		x.scout = nil
	}
}
