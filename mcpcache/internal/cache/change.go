package cache

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Change is one that was announced: of whole kinds, and of single resources.
type Change struct {
	Kinds revision.KindSet
	URIs  []string
	// Told is true if clients have been notified of it.
	Told bool
	// Again is true if the change was announced before, and clients get the notice of it only now.
	// It outdates nothing once more.
	Again bool
	// Lists are the lists of the notices that clients get. The upstream may have announced no change
	// of them: a process may have found the change by asking.
	Lists []Listed
	// Missed is true if this process may have missed the announcement. The upstream may as well have
	// announced nothing.
	Missed bool
}

// together is what a cache knows of the caches of other processes. They publish changes to each other.
type together struct {
	// publish is called with each change that was announced in this process; nil: there is none.
	publish atomic.Pointer[func(Change)]
	// until is the time until which this cache receives the others' changes, as nanoseconds after
	// origin; 0: it need not receive any.
	until  atomic.Int64
	origin time.Time
	// notified holds, for each kind, the moment of the last change that any caller may know of.
	// Clients of another process were notified, or clients whom nobody tells apart here.
	notified marks
	// notifiedHere is the same for clients of this process whom some ways tell apart, and others do not.
	notifiedHere marks
	// lists are the items of the lists of the last notices to clients of another process.
	lists [revision.Count][revision.NumKinds]atomic.Pointer[[sha256.Size]byte]
}

// Listed is a list of the feed's, as a process has it.
type Listed struct {
	Revision revision.Revision
	Kind     revision.Kind
	Items    [sha256.Size]byte // see [message.Body]
	// Outdated says that a change has been announced since that process has asked for the list.
	Outdated bool
}

// marks holds a moment for each kind.
type marks [revision.NumKinds]atomic.Pointer[Mark]

// note records m, unless a later moment is there.
func (ms *marks) note(k revision.Kind, m Mark) {
	for {
		last := ms[k].Load()
		if last != nil && last.Since(m) || ms[k].CompareAndSwap(last, &m) {
			return
		}
	}
}

// isBefore reports whether e was asked for before the moment of its kind.
func (ms *marks) isBefore(e *Entry) bool {
	m := ms[e.Kind].Load()
	return m != nil && !e.Mark.Since(*m)
}

// overdue reports whether others may have published changes that this cache has not received.
func (t *together) overdue(now time.Time) bool {
	until := t.until.Load()
	return until != 0 && int64(now.Sub(t.origin)) >= until
}

// Changes are what has been announced of one upstream's lists, and what each outdates.
type Changes struct {
	epochs [revision.NumKinds]atomic.Uint64
	// found is how many of those changes another process has found: see [Change.Lists].
	found [revision.NumKinds]atomic.Uint64
	// suspicions is bumped when one caller needs a list that is asked for after that. It outdates
	// nothing for others.
	suspicions [revision.NumKinds]atomic.Uint64
	// pages is bumped when a cursor turns out to be bad, which outdates all pages that
	// are kept by a cursor.
	pages    [revision.NumKinds]atomic.Uint64
	updates  updates // of single resources
	together together

	watching sync.Mutex // guards watches
	watches  map[*watch]struct{}
}

type watch struct{ changed func(Change) }

func (c *Changes) begin() {
	c.watches, c.together.origin = make(map[*watch]struct{}), time.Now()
	for k := range c.epochs {
		c.epochs[k].Store(firstEpoch)
	}
}

// Mark returns the present mark of kind k. It is taken before a request is sent, and
// goes into the entry made of the answer.
func (c *Changes) Mark(k revision.Kind) Mark {
	m := Mark{epoch: c.epochs[k].Load(), found: c.found[k].Load(), pages: c.pages[k].Load(), suspicions: c.suspicions[k].Load()}
	if k == revision.Reads {
		m.updates = c.updates.seq.Load()
	}
	return m
}

// Current reports whether no change of k has been announced since m.
func (c *Changes) Current(k revision.Kind, m Mark) bool { return c.epochs[k].Load() == m.epoch }

// Watch calls changed after every change of kinds until the returned function is called.
// It must return at once.
func (c *Changes) Watch(changed func(Change)) (stop func()) {
	w := &watch{changed: changed}
	c.watching.Lock()
	defer c.watching.Unlock()
	c.watches[w] = struct{}{}
	return func() {
		c.watching.Lock()
		defer c.watching.Unlock()
		delete(c.watches, w)
	}
}

// Suspect returns a mark that is later than all lists that were asked for so far: see [Mark.AskedSince].
// It is for a list that one caller may have changed. It outdates nothing.
func (c *Changes) Suspect(k revision.Kind) Mark {
	c.suspicions[k].Add(1)
	return c.Mark(k)
}

// DropPages makes all pages of k that were kept by their cursor outdated.
func (c *Changes) DropPages(k revision.Kind) { c.pages[k].Add(1) }

// Bump records that a change of those kinds has been announced. Everything
// fetched before is outdated when it returns.
func (c *Changes) Bump(kinds revision.KindSet) { c.bump(Change{Kinds: kinds}) }

// BumpTold is Bump for a change of which clients are being told, each of whom the caller of this
// method knows.
func (c *Changes) BumpTold(kinds revision.KindSet) { c.bump(Change{Kinds: kinds, Told: true}) }

func (c *Changes) bump(change Change) {
	if change.Kinds == 0 {
		return
	}
	c.outdate(change)
	for k := range revision.Kind(revision.NumKinds) {
		if change.Told && change.Kinds.Has(k) {
			c.together.notifiedHere.note(k, c.Mark(k))
		}
	}
	c.PublishChange(change)
}

// Receive records a change that another process has published. OnChange does not get it.
func (c *Cache) Receive(change Change) {
	for _, l := range change.Lists {
		c.receiveList(l)
	}
	if !change.Again {
		c.outdate(change)
		for _, uri := range change.URIs {
			c.update(uri)
		}
	}
	if !change.Told {
		return
	}
	if len(change.URIs) > 0 {
		change.Kinds |= revision.SetOf(revision.Reads)
	}
	for k := range revision.Kind(revision.NumKinds) {
		if change.Kinds.Has(k) {
			c.NoteNotified(k, c.Mark(k))
		}
	}
}

// receiveList records that clients of another process get a notice of a list. If the feed's list here is
// another one, receiveList outdates all lists of its kind, since the upstream may have announced nothing.
// It does not if a change has been announced since. Then the list here is outdated, or newer than the one
// in the notice.
func (c *Cache) receiveList(l Listed) {
	c.together.lists[l.Revision][l.Kind].Store(&l.Items)
	if e := c.Pinned(l.Revision, l.Kind); e != nil {
		isCurrent := c.Current(l.Kind, e.Mark)
		switch {
		case e.Body.ItemsDigest == l.Items:
			c.NoteNotified(l.Kind, e.Mark)
			return
		case isCurrent && l.Outdated:
			return
		case isCurrent:
			c.found[l.Kind].Add(1)
			c.outdate(Change{Kinds: revision.SetOf(l.Kind), Told: true, Missed: true})
		}
	}
	c.NoteNotified(l.Kind, c.Mark(l.Kind))
}

// IsNotifiedElsewhere reports whether e is the list of the last notice to clients of another process.
func (c *Changes) IsNotifiedElsewhere(e *Entry) bool {
	items := c.together.lists[e.Revision][e.Kind].Load()
	return items != nil && *items == e.Body.ItemsDigest
}

// NoteNotified records that any caller may know the changes of k from before m.
func (c *Changes) NoteNotified(k revision.Kind, m Mark) { c.together.notified.note(k, m) }

// MayBeKnown reports whether any caller may know of a change since e was asked for. The clients
// of another process may have been told, or those of this one before a restart.
func (c *Changes) MayBeKnown(e *Entry) bool {
	return e.Mark.BeforeStart() || c.together.notified.isBefore(e)
}

// IsKnownHere reports whether some client of this process was told of a change since e was asked
// for: see [Cache.BumpTold]. That is of interest for callers whom nobody tells apart from it.
func (c *Changes) IsKnownHere(e *Entry) bool { return c.together.notifiedHere.isBefore(e) }

// outdate outdates everything of the kinds of a change.
func (c *Changes) outdate(change Change) {
	if change.Kinds == 0 {
		return
	}
	for k := range c.epochs {
		if change.Kinds.Has(revision.Kind(k)) {
			c.epochs[k].Add(1)
		}
	}
	c.watching.Lock()
	watches := make([]*watch, 0, len(c.watches))
	for w := range c.watches {
		watches = append(watches, w)
	}
	c.watching.Unlock()
	for _, w := range watches {
		w.changed(change)
	}
}

// OnChange sets the function that publishes each change that is announced in this process. It is called
// once the change has outdated what it concerns, and must return at once.
func (c *Changes) OnChange(publish func(Change)) { c.together.publish.Store(&publish) }

// PublishChange publishes a change that is in the lists here already to other processes.
func (c *Changes) PublishChange(change Change) {
	if publish := c.together.publish.Load(); publish != nil {
		(*publish)(change)
	}
}

// ReceivesUntil says until when this cache receives the changes of other processes. After that nothing is
// fresh, until the next call. With the zero time the cache need not receive changes.
func (c *Changes) ReceivesUntil(until time.Time) {
	if until.IsZero() {
		c.together.until.Store(0)
		return
	}
	c.together.until.Store(int64(until.Sub(c.together.origin)))
}

// ReceivesOthers reports whether this cache receives the changes of other processes now.
func (c *Changes) ReceivesOthers() bool {
	return c.together.until.Load() != 0 && !c.together.overdue(time.Now())
}
