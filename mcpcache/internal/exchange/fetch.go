package exchange

import (
	"context"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// fetch has the feed fetch the list as it is now, for all callers who ask for it at
// once, and returns it if this caller may be given it. best is the cached copy, or
// nil. A caller in a hurry waits for at most a second; late says that this was not
// enough.
func (x *search) fetch(ctx context.Context, best *cache.Entry, hurry bool, a asker) (e *cache.Entry, late bool) {
	q := &x.question
	if q.detail != nil || q.kind == revision.Reads || best != nil && best.Lifetime == 0 {
		return nil, false
	}
	f := x.feed()
	if f == nil || !x.mayShare(f) {
		return nil, false
	}
	limit := freshness.Patience
	if hurry {
		limit = freshness.StalePatience
	}
	ctx, cancel := context.WithDeadline(ctx, x.arrived.Add(limit)) // it may have waited already
	defer cancel()
	x.awaitFeed(ctx, f)
	x.now = time.Now()
	who := x.whoAsks()
	if who == scoutAsks {
		scout, first := q.record.Scout(q.revision, q.kind)
		if !first {
			_, err := scout.WaitUpTo(ctx, limit)
			if x.now = time.Now(); err != nil {
				return nil, true
			}
		}
		who = x.whoAsks() // one may have returned just before this one was sent
		switch {
		case first && who == scoutAsks:
			x.scout = scout
			return nil, false
		case first:
			scout.Land(struct{}{}, nil)
		}
	}
	switch who {
	case feedAsks:
		return x.join(ctx, f, nil, limit, a)
	case feedAsksAs:
		return x.join(ctx, f, q.record, limit, a)
	case scoutAsks, clientAsks:
	}
	return nil, false
}

// asking says whose request brings a list that is not fresh.
type asking uint8

const (
	// clientAsks: each client's own.
	clientAsks asking = iota
	// feedAsks: the feed's.
	feedAsks
	// feedAsksAs: the feed's, sent as a client of the variant.
	feedAsksAs
	// scoutAsks: the first client's. Its answer shows what others of its variant are
	// given.
	scoutAsks
)

// whoAsks decides whose request brings the list for a client of this variant.
func (x *search) whoAsks() asking {
	q := &x.question
	r := q.record
	if !x.context.AsksLikeFeed() {
		return x.whoAsksApart()
	}
	switch {
	case q.variant == cache.Variant{}:
		return feedAsks
	case r == nil, r.Hopeless(q.revision, q.kind, q.mark):
		return clientAsks
	}
	c, snapshot, seen := x.backend.Cache, x.snapshot(), r.Seen(q.revision, q.kind)
	if seen != nil && c.Current(q.kind, seen.Mark) {
		switch {
		case snapshot == nil && x.onlyForClients():
			return feedAsksAs
		case snapshot == nil, !c.Current(q.kind, snapshot.Mark), seen.Agrees(snapshot):
			return feedAsks
		case seen.Differs(snapshot):
			return feedAsksAs
		}
	}
	if seen != nil && q.revision.Era() == revision.Modern || r.Differed(q.revision, q.kind) || r.Paged(q.revision, q.kind) {
		return feedAsksAs
	}
	return scoutAsks
}

// whoAsksApart is whoAsks for a client that asks for something else than the feed. The feed
// asks the same once that serves several callers, and a client has been given the list.
func (x *search) whoAsksApart() asking {
	q := &x.question
	switch r := q.record; {
	case r == nil, !r.IsShared(), r.Hopeless(q.revision, q.kind, q.mark), r.Private(q.revision, q.kind) && !x.asksAsFeedCan():
		return clientAsks
	case r.Seen(q.revision, q.kind) == nil && !r.Paged(q.revision, q.kind):
		return scoutAsks
	}
	return feedAsksAs
}

// onlyForClients reports whether the upstream has given clients the list, and not the feed.
func (x *search) onlyForClients() bool {
	f := x.backend.Feeds.Of(x.question.revision)
	return f != nil && f.List(x.question.kind).Learned()
}

// join waits for the feed to fetch the list as a client of variant v, or as itself
// if v is nil. late says that the time was over.
func (x *search) join(ctx context.Context, f *feed.Feed, v *variant.Record, limit time.Duration, a asker) (e *cache.Entry, late bool) {
	fetch := f.List(x.question.kind).Demand(v)
	if fetch == nil {
		return nil, false
	}
	if limit == freshness.StalePatience { // others may have waited for it that long already
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, fetch.Asked().Add(limit))
		defer cancel()
	}
	e, err := fetch.Wait(ctx)
	x.now = time.Now()
	switch {
	case err != nil:
		return nil, ctx.Err() != nil
	case e.Lifetime == 0, !e.Partition.Admits(x.context), !fetch.Since(x.question.mark),
		v == nil && !x.shares(e, a.Caller):
		return nil, false
	}
	return e, false
}

// feed returns the feed of the question's revision, and starts it if need be. It returns
// nil if there is none: the operator does not want its era spoken, or the backend ends.
func (x *search) feed() *feed.Feed {
	feeds := x.backend.Feeds
	feeds.Start(x.question.revision)
	return feeds.Of(x.question.revision)
}

// mayShare reports whether this caller could be given what the feed fetches.
func (x *search) mayShare(f *feed.Feed) bool {
	e := x.catalog.List(x.question.revision, x.question.kind)
	own := x.context
	if x.asksAsFeedCan() {
		own = cache.Anonymous
	}
	if e != nil {
		return e.Partition.IsPublic() || e.Partition == own
	}
	return f.Owner() == own || x.backend.Settings.Feed.PublicByDefault || x.backend.Settings.Feed.PublicAlways
}

// asksAsFeedCan reports whether this caller may be given a list that is not public, if the feed was given it for the
// same question: neither has credentials. A caller whose question differs by its Host alone may not.
func (x *search) asksAsFeedCan() bool {
	return x.leftToFeed() && x.context == cache.WithoutCredentials(x.context.Asked())
}

// awaitFeed waits until a feed has tried to fetch every kind, within the gate.
func (x *search) awaitFeed(ctx context.Context, f *feed.Feed) {
	select {
	case <-f.Attempted():
		return
	default:
	}
	if x.backend.Settings.Gate <= 0 {
		return
	}
	timer := time.NewTimer(x.backend.Settings.Gate)
	defer timer.Stop()
	select {
	case <-f.Attempted():
	case <-timer.C:
	case <-ctx.Done():
	}
}
