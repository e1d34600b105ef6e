package mcpcache

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// learnAnswer takes the upstream's answer to a question.
func (l *lesson) learnAnswer(r message.Response) {
	x := l.x
	q := &x.question
	if r.Error != nil {
		if x.request.Cursor != nil {
			// A page that cannot be reached any more: the others belong to
			// the same walk (CACHE, "Pagination").
			x.h.shared.cache.DropPages(q.kind)
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
}

// keep stores what this caller was given, for callers of the same
// authorization context or for everybody.
func (x *exchange) keep(page *message.Page) {
	q := &x.question
	body := message.Single(q.kind, page)
	snapshot := x.snapshot()
	if !x.settleTold(body, snapshot) || snapshot != nil {
		return
	}
	if page.NextCursor != nil && q.revision.Era() == revision.Legacy {
		return // the rest of the list can be had by this session only
	}
	policy := &x.h.settings.feed
	lifetime := policy.Lifetime(page.TTL, page.HasTTL)
	if lifetime == 0 || q.kind == revision.Reads && !page.HasTTL {
		return
	}
	x.h.shared.cache.Put(&cache.Entry{
		Kind: q.kind, Revision: q.revision, Variant: q.variant, Detail: clone(q.detail),
		Partition: policy.Partition(body.Scope, x.context),
		Body:      body, Fetched: time.Now(), Lifetime: lifetime, Mark: q.mark,
	})
}

// settleTold ends the exception for a session that was told of a change: its
// list is what others are given again. It reports whether the answer may be
// kept: one that differs is this session's own, and so are those to come.
func (x *exchange) settleTold(body *message.Body, snapshot *cache.Entry) bool {
	caller := x.caller()
	if caller == nil || x.session == "" {
		return true
	}
	told := caller.Told(x.question.kind)
	if told == nil {
		return true
	}
	reference := snapshot
	if reference == nil {
		reference = x.h.shared.cache.Get(x.question.in(x.context))
	}
	if reference != nil && reference.Body.Digest == body.Digest && reference.Mark.Since(told.Mark) &&
		x.question.mark.Since(told.Mark) && x.h.shared.cache.Current(x.question.kind, reference.Mark) {
		caller.Settle(x.question.kind, told)
		return true
	}
	if x.question.mark.Since(told.Mark) {
		caller.Differ(x.question.kind, told)
	}
	return false
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}
