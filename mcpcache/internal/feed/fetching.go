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
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outgoing"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// errEmpty says that a list is empty that had items: see [emptiness.Watch].
var errEmpty = errors.New("list is empty all of a sudden, asking again")

// fetch fetches a kind in the background, in session s, as a client of variant v
// asks: a nil one is the feed itself. The caller holds f.mu.
func (f *Feed) fetch(ctx context.Context, s *client.Session, k revision.Kind, v *variant.Record) *Fetch {
	fetch := &Fetch{Flight: flight.New[*cache.Entry](), variant: v}
	slot := &f.slots[k]
	slot.fetches = append(slot.fetches, fetch)
	gathered := slot.noticeSeen.Add(f.gather())
	f.background.Go(func() {
		defer func() { fetch.Land(fetch.entry, fetch.err) }()
		asking := s
		if wait := time.Until(gathered); wait > 0 && !sleep(ctx, wait, nil) {
			fetch.err = ctx.Err()
		} else {
			asking, fetch.err = f.sessionAs(ctx, s, v)
		}
		if fetch.err == nil {
			f.begin(k, fetch)
			fetch.entry, fetch.err = f.request(ctx, asking, k, fetch)
		}
		if v == nil {
			f.done(ctx, s, k, fetch)
		} else {
			f.doneAs(k, fetch)
		}
	})
	return fetch
}

const (
	// gather is how long after a notice a fetch waits before it begins. An upstream
	// tells all feeds of a change at once, but the notices do not arrive at once; what
	// the first of them starts need not be done again for the others.
	gather = time.Millisecond
	// gatherSeveral is the same if other instances hear of the change, too, and tell this one.
	gatherSeveral = 10 * time.Millisecond
)

func (f *Feed) gather() time.Duration {
	if turns := f.policy().Turns; turns != nil && turns.Several() {
		return gatherSeveral
	}
	return gather
}

// begin marks a fetch as one from after all that has been announced so far. It
// sends nothing before.
func (f *Feed) begin(k revision.Kind, fetch *Fetch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fetch.mark, fetch.begun, fetch.begunAt = f.cache.Mark(k), true, time.Now()
	if fetch.variant == nil {
		slot := &f.slots[k]
		slot.started, slot.due, slot.settled = time.Now(), time.Time{}, false // done says when the next one is due
	}
}

// request asks for a list and makes a snapshot of it. It is as old as the first page, and
// fresh for as long as the page with the shortest life. A panic is a failure of this
// fetch only.
func (f *Feed) request(ctx context.Context, s *client.Session, k revision.Kind, fetch *Fetch) (e *cache.Entry, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, fmt.Errorf("fetching %s panicked: %v", k, p)
		}
	}()
	request := client.ListRequest{Kind: k, As: identityOf(fetch.variant), Patient: fetch.variant == nil}
	if own := f.cache.Pinned(f.revision, k); own != nil {
		request.Before = own.Size()
	}
	policy := f.policy()
	fetch.times = policy.Of(k)
	list, err := s.List(outgoing.WithUpkeep(ctx), request)
	if err != nil {
		return nil, client.Brief(err)
	}
	fetch.server = list.Server
	lifetime := fetch.times.MaxTTL
	for _, page := range list.Pages {
		lifetime = min(lifetime, policy.Lifetime(k, page.TTL, page.HasTTL))
	}
	return &cache.Entry{
		Kind: k, Revision: f.revision, Variant: keyOf(fetch.variant),
		Body: list.Body, Fetched: list.First, Asked: fetch.begunAt, Mark: fetch.mark,
		Lifetime: lifetime, Partition: policy.partitionFor(list.Body.Scope, fetch.variant),
	}, nil
}

// doneAs takes over what a fetch as a client of another variant brought. If it is
// what the feed itself was given, the feed's snapshot serves both from now on;
// otherwise it is that variant's. What clients of the variant were given
// themselves decides: a list that is not theirs is given to nobody.
func (f *Feed) doneAs(k revision.Kind, fetch *Fetch) {
	defer func() { // whoever does not join this fetch any more finds what it brought
		f.mu.Lock()
		f.slots[k].remove(fetch)
		f.mu.Unlock()
	}()
	v := fetch.variant
	if fetch.err != nil {
		f.forgetSession(v)
		return
	}
	e := fetch.entry
	v.SeePublic(f.revision, k, e.Partition.IsPublic())
	if !v.AsksLikeFeed() && (e.Partition == cache.FeedOnly || k != revision.Discover && e.Body.Items == 0) {
		fetch.entry, fetch.err = nil, errNobodys
		v.Conflict(f.revision, k, fetch.mark) // not to ask again and again
		return
	}
	if k != revision.Discover && !v.Believes(e, fetch.begunAt, f.policy().Refresh) {
		fetch.entry, fetch.err = nil, errEmpty
		return
	}
	seen := &cache.Seen{Items: e.Body.ItemsDigest, Mark: fetch.mark, At: e.Fetched}
	own := f.ownFor(k, v)
	if !v.Confirm(seen, e, own) {
		fetch.entry, fetch.err = nil, errConflict
		if given := v.Seen(f.revision, k); given == nil || !given.At.After(fetch.begunAt) {
			v.Conflict(f.revision, k, fetch.mark) // otherwise the list may have changed meanwhile
		}
		return
	}
	switch {
	case own == nil || !seen.Agrees(own):
		f.cache.Put(e)
	case own.Body.Digest == e.Body.Digest && own.Mark.Since(fetch.mark):
		fetch.entry = own // callers who read slowly need not keep another copy
	}
}

// ownFor returns the feed's snapshot, with which the list of a variant may be compared; nil
// if there is none, or if the clients of the variant ask for something else.
func (f *Feed) ownFor(k revision.Kind, v *variant.Record) *cache.Entry {
	if v != nil && !v.AsksLikeFeed() {
		return nil
	}
	return f.cache.Pinned(f.revision, k)
}

// errNobodys says that a list is not shared that was fetched for all who ask for something
// else than the feed: it is the guard's own, or empty. Nothing shows whether it is empty for a
// moment only.
var errNobodys = errors.New("the list that such requests bring is empty, or the guard's own")

// errConflict says that a client of a variant was given another list than the
// feed that asked as one.
var errConflict = errors.New("clients of one variant are given different lists")

// done publishes what a fetch brought, and says when the next one is due.
func (f *Feed) done(ctx context.Context, s *client.Session, k revision.Kind, fetch *Fetch) {
	// Whatever comes of it, there is room for the next fetch.
	defer signal(f.wake)
	before := f.cache.Pinned(f.revision, k)
	f.mu.Lock()
	slot := &f.slots[k]
	slot.remove(fetch)
	defer slot.announceDone(f)
	if ctx.Err() != nil || f.session != s || !slot.offered {
		f.mu.Unlock()
		// The session is over, or nobody wants the kind any more: that is
		// nobody's failure.
		return
	}
	f.conclude(slot, k, fetch, before)
	slot.come(f.cache.Pinned(f.revision, k), fetch.err)
	slot.attempted = true
	took := time.Since(slot.started)
	f.mu.Unlock()
	f.report(k, before, fetch, took)
	f.noteProgress()
}

// conclude pins what a fetch brought, or notes why it failed, and says when the
// next one is due. The caller holds f.mu.
func (f *Feed) conclude(slot *slot, k revision.Kind, fetch *Fetch, before *cache.Entry) {
	empty := fetch.err == nil && !fetch.elsewhere && f.suspicious(slot, before, fetch)
	if empty {
		fetch.entry, fetch.err = nil, errEmpty
	} else {
		slot.empty.Full()
	}
	switch {
	case fetch.err == nil:
		fetch.overtaken = !f.cache.Pin(fetch.entry)
		if fetch.overtaken {
			return // what is newer has said when the next one is due
		}
		if fetch.server != nil {
			f.describe(fetch.server)
		}
		f.compareSilence(slot, k, before, fetch.entry)
		f.compareNotices(slot, k, before, fetch.entry)
		slot.compareCalled(before, fetch.entry)
		if !fetch.elsewhere {
			f.trust(slot.started)
		}
		slot.failure, slot.times = nil, fetch.times
		slot.rested()
		slot.delivered, slot.trial, slot.learned = true, false, false
		slot.retry.Reset()
		f.schedule(slot, k, fetch.entry)
	case slot.trial:
		f.offer(k, false)
	case slot.learned, before == nil && client.NotOffered(fetch.err):
		// The server advertises the capability but not this method, or has it only for
		// clients that can do more than the feed.
		slot.failure, slot.settled = nil, true
		slot.due = time.Now().Add(early(f.policy().Of(k).TTL))
	default:
		now := time.Now()
		f.doubtIfGone(fetch.err)
		slot.failure, slot.settled = &Failure{Stage: k.String(), Err: fetch.err, At: now}, f.hasGiven()
		slot.notBefore = now.Add(client.RetryAfter(fetch.err))
		if empty {
			refresh := f.policy().Refresh
			slot.due = later(slot.empty.Next(!f.cache.Current(k, before.Mark), refresh), slot.started.Add(refresh))
			return
		}
		aged := fetch.aged && slot.due.IsZero()
		slot.due = later(now.Add(slot.retry.NextBackOff()), slot.notBefore)
		if aged {
			slot.aged = slot.due // another instance may have more luck
		}
	}
}

// schedule says when a kind that has just been fetched is due again. The
// caller holds f.mu.
func (f *Feed) schedule(slot *slot, k revision.Kind, e *cache.Entry) {
	p := f.policy()
	life := e.Lifetime
	if life == 0 {
		// Never fresh: the copy only has to be recent enough for bad times.
		life = p.Of(k).TTL
	}
	due := later(e.Fetched.Add(early(life)), slot.started.Add(p.Refresh))
	if slot.dueByAge() { // which is that of the list before
		slot.due = time.Time{}
	}
	// Something may have asked for another fetch while this one was under way.
	slot.hasten(due)
	slot.aged = due
	switch {
	case slot.refreshing():
	case slot.times != p.Of(k):
		slot.due = slot.started.Add(p.Refresh)
	case !f.cache.Current(k, e.Mark):
		slot.due = slot.started.Add(slot.notices.Pause(p.Refresh))
	}
}

// suspicious reports whether an empty answer still has to be confirmed. before is
// the list as it was, or nil.
func (f *Feed) suspicious(slot *slot, before *cache.Entry, fetch *Fetch) bool {
	now := fetch.entry
	if now.Kind == revision.Discover || now.Body.Items > 0 || before == nil || before.Body.Items == 0 {
		return false
	}
	return !slot.empty.Believes(fetch.begunAt, !f.cache.Current(now.Kind, before.Mark), f.policy().Refresh)
}

// report tells the observer what a fetch has brought, and the log if it is new.
func (f *Feed) report(k revision.Kind, before *cache.Entry, fetch *Fetch, took time.Duration) {
	observer := f.policy().Observer
	if fetch.err != nil {
		if observer != nil {
			observer.Refreshed(f.revision, k, took, false, fetch.err)
		}
		return
	}
	published := fetch.entry
	if fetch.overtaken {
		published = before
	}
	fetch.change = compare(before, published)
	if observer != nil && !fetch.elsewhere {
		observer.Refreshed(f.revision, k, took, fetch.change.Same, nil)
	}
	if fetch.change.Same {
		return
	}
	f.announce(k, before, fetch)
	if again := published.Body.Repeated; len(again) > 0 && (before == nil || !slices.Equal(again, before.Body.Repeated)) {
		f.group.logger.Load().Warn("list has items of one name, and is kept as it is", zap.Stringer("kind", k), zap.Strings("names", again))
	}
	f.group.logger.Load().Info("list refreshed",
		zap.Stringer("kind", k), zap.Stringer("revision", f.revision),
		zap.Int("items", fetch.change.Items), zap.Int("added", len(fetch.change.Added)),
		zap.Int("removed", len(fetch.change.Removed)), zap.Int("changed", len(fetch.change.Changed)),
		zap.Int("more", fetch.change.More))
	if observer != nil {
		observer.Changed(fetch.change)
	}
}
