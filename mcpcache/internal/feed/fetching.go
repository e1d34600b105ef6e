package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// errEmpty says that a list is empty that had items: see [emptiness.Watch].
var errEmpty = errors.New("list is empty all of a sudden, asking again")

// fetch fetches the list in the background, over a connection, as a client of variant v
// asks: a nil one is the feed itself. The caller holds the feed's mu.
func (l *List) fetch(c *connection, v *variant.Record) *Fetch {
	f := &Fetch{Flight: flight.New[*cache.Entry](), list: l, variant: v}
	l.fetches = append(l.fetches, f)
	gathered := l.noticeSeen.Add(l.feed.policy().gather())
	l.feed.background.Go(func() {
		defer func() { f.Land(f.entry, f.err) }()
		asking := c.Session
		if wait := time.Until(gathered); wait > 0 && !sleep(c.ctx, wait, nil) {
			f.err = c.ctx.Err()
		} else {
			asking, f.err = c.sessionAs(v)
		}
		if f.err == nil {
			f.begin()
			f.entry, f.err = f.request(c.ctx, asking)
		}
		if v == nil {
			f.done(c)
		} else {
			f.doneAs(c)
		}
	})
	return f
}

const (
	// gather is how long after a notice a fetch waits before it begins. An upstream
	// tells all feeds of a change at once, but the notices do not arrive at once; what
	// the first of them starts need not be done again for the others.
	gather = time.Millisecond
	// gatherSeveral is the same if other instances hear of the change, too, and tell this one.
	gatherSeveral = 10 * time.Millisecond
)

func (p *Policy) gather() time.Duration {
	if p.Leases != nil && p.Leases.Several() {
		return gatherSeveral
	}
	return gather
}

// begin marks a fetch as one from after all that has been announced so far. It
// sends nothing before.
func (f *Fetch) begin() {
	l := f.list
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	f.mark, f.begun, f.begunAt = l.feed.cache.Mark(l.kind), true, time.Now()
	if f.variant == nil {
		l.started, l.due, l.settled = time.Now(), time.Time{}, false // done says when the next one is due
	}
}

// request asks for a list and makes a snapshot of it. It is as old as the first page, and
// fresh for as long as the page with the shortest life. A panic is a failure of this
// fetch only.
func (f *Fetch) request(ctx context.Context, s *client.Session) (e *cache.Entry, err error) {
	l := f.list
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, fmt.Errorf("fetching %s panicked: %v", l.kind, p)
		}
	}()
	request := client.ListRequest{Kind: l.kind, As: identityOf(f.variant), Patient: f.variant == nil}
	if own := l.pinned(); own != nil {
		request.Before = own.Size()
	}
	policy := l.feed.policy()
	f.times = policy.Of(l.kind)
	list, err := s.List(requesthint.WithUpkeep(ctx), request)
	if err != nil {
		return nil, client.Brief(err)
	}
	f.server = list.Server
	lifetime := f.times.MaxTTL
	for _, page := range list.Pages {
		lifetime = min(lifetime, policy.Lifetime(l.kind, page.TTL, page.HasTTL))
	}
	return &cache.Entry{
		Kind: l.kind, Revision: l.feed.revision, Variant: keyOf(f.variant),
		Body: list.Body, Fetched: list.First, Asked: f.begunAt, Mark: f.mark,
		Lifetime: lifetime, Partition: policy.partitionFor(list.Body.Scope, f.variant),
	}, nil
}

// doneAs takes over what a fetch as a client of another variant brought. If it is
// what the feed itself was given, the feed's snapshot serves both from now on;
// otherwise it is that variant's. What clients of the variant were given
// themselves decides: a list that is not theirs is given to nobody.
func (f *Fetch) doneAs(c *connection) {
	l, v := f.list, f.variant
	defer func() { // whoever does not join this fetch any more finds what it brought
		l.feed.mu.Lock()
		l.remove(f)
		l.feed.mu.Unlock()
	}()
	if f.err != nil {
		c.forgetSession(v)
		return
	}
	e := f.entry
	v.SeePublic(l.feed.revision, l.kind, e.Partition.IsPublic())
	if !v.AsksLikeFeed() && (e.Partition == cache.FeedOnly || l.kind != revision.Discover && e.Body.Items == 0) {
		f.entry, f.err = nil, errNobodys
		v.Conflict(l.feed.revision, l.kind, f.mark) // not to ask again and again
		return
	}
	if l.kind != revision.Discover && !v.Believes(e, f.begunAt, l.feed.policy().Refresh) {
		f.entry, f.err = nil, errEmpty
		return
	}
	seen := &cache.Seen{Items: e.Body.ItemsDigest, Mark: f.mark, At: e.Fetched}
	own := l.ownFor(v)
	if !v.Confirm(seen, e, own) {
		f.entry, f.err = nil, errConflict
		if given := v.Seen(l.feed.revision, l.kind); given == nil || !given.At.After(f.begunAt) {
			v.Conflict(l.feed.revision, l.kind, f.mark) // otherwise the list may have changed meanwhile
		}
		return
	}
	switch {
	case own == nil || !seen.Agrees(own):
		l.feed.cache.Put(e)
	case own.Body.Digest == e.Body.Digest && own.Mark.Since(f.mark):
		f.entry = own // callers who read slowly need not keep another copy
	}
}

// ownFor returns the feed's snapshot, with which the list of a variant may be compared; nil
// if there is none, or if the clients of the variant ask for something else.
func (l *List) ownFor(v *variant.Record) *cache.Entry {
	if v != nil && !v.AsksLikeFeed() {
		return nil
	}
	return l.pinned()
}

// errNobodys says that a list is not shared that was fetched for all who ask for something
// else than the feed: it is the guard's own, or empty. Nothing shows whether it is empty for a
// moment only.
var errNobodys = errors.New("the list that such requests bring is empty, or the guard's own")

// errConflict says that a client of a variant was given another list than the
// feed that asked as one.
var errConflict = errors.New("clients of one variant are given different lists")

// done publishes what a fetch brought, and says when the next one is due.
func (f *Fetch) done(c *connection) {
	l := f.list
	// Whatever comes of it, there is room for the next fetch.
	defer flight.Signal(l.feed.wake)
	before := l.pinned()
	l.feed.mu.Lock()
	l.remove(f)
	defer l.announceDone()
	if c.ctx.Err() != nil || l.feed.conn != c || !l.offered {
		l.feed.mu.Unlock()
		// The session is over, or nobody wants the kind any more: that is
		// nobody's failure.
		return
	}
	l.conclude(f, before)
	l.come(l.pinned(), f.err)
	l.attempted = true
	took := time.Since(l.started)
	l.feed.mu.Unlock()
	f.report(before, took)
	l.feed.noteProgress()
}

// conclude pins what a fetch brought, or notes why it failed, and says when the
// next one is due. The caller holds the feed's mu.
func (l *List) conclude(fetch *Fetch, before *cache.Entry) {
	f := l.feed
	empty := fetch.err == nil && !fetch.elsewhere && l.suspicious(before, fetch)
	if empty {
		fetch.entry, fetch.err = nil, errEmpty
	} else {
		l.empty.Full()
	}
	switch {
	case fetch.err == nil:
		fetch.overtaken = !f.cache.Pin(fetch.entry)
		if fetch.overtaken {
			return // what is newer has said when the next one is due
		}
		if fetch.server != nil {
			f.conn.describe(fetch.server)
		}
		l.compareSilence(before, fetch.entry)
		l.compareNotices(before, fetch.entry)
		l.compareCalled(before, fetch.entry)
		if !fetch.elsewhere {
			f.trust(l.started)
		}
		l.failure, l.times = nil, fetch.times
		l.rested()
		l.delivered, l.trial.on, l.trial.learned = true, false, false
		l.retry.Reset()
		l.schedule(fetch.entry)
	case l.trial.on:
		l.offer(false)
	case l.trial.learned, before == nil && client.NotOffered(fetch.err):
		// The server advertises the capability but not this method, or has it only for
		// clients that can do more than the feed.
		l.failure, l.settled = nil, true
		l.due = time.Now().Add(early(f.policy().Of(l.kind).TTL))
	default:
		now := time.Now()
		f.suspectIfGone(fetch.err)
		l.failure, l.settled = &Failure{Stage: l.kind.String(), Err: fetch.err, At: now}, f.hasGiven()
		l.notBefore = now.Add(client.RetryAfter(fetch.err))
		if empty {
			refresh := f.policy().Refresh
			l.due = later(l.empty.Next(!f.cache.Current(l.kind, before.Mark), refresh), l.started.Add(refresh))
			return
		}
		aged := fetch.aged && l.due.IsZero()
		l.due = later(now.Add(l.retry.NextBackOff()), l.notBefore)
		if aged {
			l.aged = l.due // another instance may have more luck
		}
	}
}

// schedule says when the list, which has just been fetched, is due again. The
// caller holds the feed's mu.
func (l *List) schedule(e *cache.Entry) {
	p := l.feed.policy()
	life := e.Lifetime
	if life == 0 {
		// Never fresh: the copy only has to be recent enough for bad times.
		life = p.Of(l.kind).TTL
	}
	due := later(e.Fetched.Add(early(life)), l.started.Add(p.Refresh))
	if l.dueByAge() { // which is that of the list before
		l.due = time.Time{}
	}
	// Something may have asked for another fetch while this one was under way.
	l.hasten(due)
	l.aged = due
	switch {
	case l.refreshing():
	case l.times != p.Of(l.kind):
		l.due = l.started.Add(p.Refresh)
	case !l.feed.cache.Current(l.kind, e.Mark):
		l.due = l.started.Add(l.notices.Pause(p.Refresh))
	}
}

// suspicious reports whether an empty answer still has to be confirmed. before is
// the list as it was, or nil.
func (l *List) suspicious(before *cache.Entry, fetch *Fetch) bool {
	now := fetch.entry
	if now.Kind == revision.Discover || now.Body.Items > 0 || before == nil || before.Body.Items == 0 {
		return false
	}
	return !l.empty.Believes(fetch.begunAt, !l.feed.cache.Current(now.Kind, before.Mark), l.feed.policy().Refresh)
}

// report tells the observer what a fetch has brought, and the log if it is new.
func (f *Fetch) report(before *cache.Entry, took time.Duration) {
	l := f.list
	observer := l.feed.policy().Observer
	if f.err != nil {
		if observer != nil {
			observer.Refreshed(l.feed.revision, l.kind, took, false, f.err)
		}
		return
	}
	published := f.entry
	if f.overtaken {
		published = before
	}
	f.change = compare(before, published)
	if observer != nil && !f.elsewhere {
		observer.Refreshed(l.feed.revision, l.kind, took, f.change.Same, nil)
	}
	if f.change.Same {
		return
	}
	l.announce(before, f)
	if again := published.Body.Repeated; len(again) > 0 && (before == nil || !slices.Equal(again, before.Body.Repeated)) {
		l.feed.group.logger.Load().Warn("list has items of one name, and is kept as it is", zap.Stringer("kind", l.kind), zap.Strings("names", again))
	}
	l.feed.group.logger.Load().Info("list refreshed",
		zap.Stringer("kind", l.kind), zap.Stringer("revision", l.feed.revision),
		zap.Int("items", f.change.Items), zap.Int("added", len(f.change.Added)),
		zap.Int("removed", len(f.change.Removed)), zap.Int("changed", len(f.change.Changed)),
		zap.Int("more", f.change.More))
	if observer != nil {
		observer.Changed(f.change)
	}
}
