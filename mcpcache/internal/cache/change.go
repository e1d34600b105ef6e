package cache

import (
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Change is one that was announced: of whole kinds, and of single resources.
type Change struct {
	Kinds revision.KindSet
	URIs  []string
	// Told says that clients have been told of it.
	Told bool
	// Again says that the change was announced before, and clients are being told of it only
	// now: nothing is outdated once more.
	Again bool
	// Missed says that it may have been announced where nobody here has heard of it. The upstream
	// may as well have announced nothing.
	Missed bool
}

// together is what the caches of several processes need to know, which tell each other of
// changes.
type together struct {
	// tell is told of each change that was announced in this process; nil: nobody is.
	tell atomic.Pointer[func(Change)]
	// until is until when this cache hears of the others' changes, as nanoseconds after origin;
	// 0: it need not.
	until  atomic.Int64
	origin time.Time
	// told holds, for each kind, the moment of the last change that any caller may know of:
	// clients of another process were told, or clients whom nobody tells apart here.
	told [revision.NumKinds]atomic.Pointer[Mark]
}

// overdue reports whether others may have told of changes that have not been heard of here.
func (t *together) overdue(now time.Time) bool {
	until := t.until.Load()
	return until != 0 && int64(now.Sub(t.origin)) >= until
}

// Bump records that a change of those kinds has been announced. Everything
// fetched before is outdated when it returns.
func (c *Cache) Bump(kinds revision.KindSet) { c.bump(Change{Kinds: kinds}) }

// BumpTold is Bump for a change of which clients are being told.
func (c *Cache) BumpTold(kinds revision.KindSet) { c.bump(Change{Kinds: kinds, Told: true}) }

func (c *Cache) bump(change Change) {
	if change.Kinds != 0 {
		c.outdate(change)
		c.TellOthers(change)
	}
}

// Hear records a change that was announced in another process. OnChange does not tell of it.
func (c *Cache) Hear(change Change) {
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
			c.NoteTold(k, c.Mark(k))
		}
	}
}

// NoteTold records that any caller may know of the changes of k from before m.
func (c *Cache) NoteTold(k revision.Kind, m Mark) {
	told := &c.together.told[k]
	for {
		last := told.Load()
		if last != nil && last.Since(m) || told.CompareAndSwap(last, &m) {
			return
		}
	}
}

// MayBeKnown reports whether any caller may know of a change since e was asked for. The clients
// of another process may have been told, or those of this one before a restart.
func (c *Cache) MayBeKnown(e *Entry) bool {
	told := c.together.told[e.Kind].Load()
	return e.Mark.BeforeStart() || told != nil && !e.Mark.Since(*told)
}

// outdate outdates everything of the kinds of a change.
func (c *Cache) outdate(change Change) {
	if change.Kinds == 0 {
		return
	}
	for k := range c.epochs {
		if change.Kinds.Has(revision.Kind(k)) {
			c.epochs[k].Add(1)
		}
	}
	c.mu.Lock()
	watches := make([]*watch, 0, len(c.watches))
	for w := range c.watches {
		watches = append(watches, w)
	}
	c.mu.Unlock()
	for _, w := range watches {
		w.changed(change)
	}
}

// OnChange has tell called with every change that is announced in this process, once what it
// outdates is. It must return at once.
func (c *Cache) OnChange(tell func(Change)) { c.together.tell.Store(&tell) }

// TellOthers has other processes hear of a change that is in the lists here already.
func (c *Cache) TellOthers(change Change) {
	if tell := c.together.tell.Load(); tell != nil {
		(*tell)(change)
	}
}

// HearsUntil says until when changes that are announced in other processes are heard of here:
// nothing is fresh after that, until it is later. The zero time says that they need not be.
func (c *Cache) HearsUntil(until time.Time) {
	if until.IsZero() {
		c.together.until.Store(0)
		return
	}
	c.together.until.Store(int64(until.Sub(c.together.origin)))
}

// HearsOthers reports whether changes that are announced in other processes are heard of here now.
func (c *Cache) HearsOthers() bool {
	return c.together.until.Load() != 0 && !c.together.overdue(time.Now())
}
