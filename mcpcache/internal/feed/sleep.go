package feed

import (
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Sleeper is an upstream that sleeps while nobody uses it, as a program does that starts when it is
// needed. Its lists stay as they are while it sleeps. Asking for them would wake it, so that is left
// until something else has: see [Group.Woken].
type Sleeper interface {
	// Asleep reports whether the upstream sleeps.
	Asleep() bool
	// Announce has the upstream send a notification of a change to all who would be sent it. It
	// could not while it slept. Announce returns at once.
	Announce(method string)
}

// Woken tells the feeds that a client uses the upstream, which has slept until that time: its lists
// may have changed meanwhile.
func (g *Group) Woken(since time.Time) {
	for _, f := range g.All() {
		f.woken(since)
	}
}

// Anew has the feeds ask for all lists at once, though the upstream sleeps, and connect at once
// where they could not: an operator has started it anew.
func (g *Group) Anew() {
	for _, f := range g.All() {
		f.anew()
	}
}

func (f *Feed) anew() {
	f.mu.Lock()
	if f.conn == nil {
		flight.Signal(f.retryNow)
	}
	for _, l := range f.lists {
		l.notBefore = time.Time{} // it was said by the one before
		l.started = time.Time{}
	}
	f.mu.Unlock()
	f.woken(time.Now())
}

func (f *Feed) woken(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.conn.isHydrated() {
		return // that fetches all
	}
	for _, k := range revision.Kinds() {
		l := f.List(k)
		if l.try(); l.offered && l.started.Before(since) {
			l.woken, l.settled = since, false
			l.makeDue(f.policy().Refresh)
		}
	}
	flight.Signal(f.wake)
}

// rested notes that the upstream has been asked: if since it was woken, it may sleep again.
func (l *List) rested() {
	if !l.started.Before(l.woken) {
		l.woken = time.Time{}
	}
}

// asleep reports whether the upstream sleeps.
func (p *Policy) asleep() bool { return p.Sleeper != nil && p.Sleeper.Asleep() }

// announce tells of a change that a fetch has brought, and of which no notice came: it may have
// happened while the upstream slept.
func (l *List) announce(before *cache.Entry, fetch *Fetch) {
	sleeper, method := l.feed.policy().Sleeper, revision.ChangeOf(l.kind)
	if sleeper != nil && method != "" && before != nil && !fetch.overtaken && before.Mark.SameEpoch(fetch.mark) {
		sleeper.Announce(method)
	}
}

// rests reports whether the list is not asked for now, though it is due, as that would wake the
// upstream. The caller holds the feed's mu.
func (l *List) rests() bool {
	f := l.feed
	own := f.cache.Pinned(f.revision, l.kind)
	known := l.settled
	if own != nil {
		known = f.cache.Current(l.kind, own.Mark)
	}
	return known && l.woken.IsZero() && f.policy().asleep()
}

// hasGiven reports whether the upstream has given any list.
func (f *Feed) hasGiven() bool {
	return slices.ContainsFunc(f.lists[:], func(l *List) bool { return l.pinned() != nil })
}

// restored reports whether there are lists from before a restart, so that the upstream need not
// wake. Of what there is none it had none, or it is asked when somebody wants to know. The caller
// holds f.mu.
func (f *Feed) restored() bool {
	return slices.ContainsFunc(f.lists[:], (*List).rests)
}
