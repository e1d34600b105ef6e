package cache

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// View chooses the items of a list that its callers see. It is immutable.
type View interface {
	// Key tells the view from all views that show other items.
	Key() [32]byte
	// Restricts reports whether items of that kind may be hidden.
	Restricts(k revision.Kind) bool
	// Personal reports whether other callers may see other items of that kind.
	Personal(k revision.Kind) bool
	// Shows reports whether its callers see an item, as written in a list.
	Shows(k revision.Kind, item []byte) bool
}

const (
	// maxFiltered is for how many views a pinned list is ready, as long as there is memory.
	// Lists of others are in the bounded store.
	maxFiltered = 64
	// filterPatience is how long a large list waits until it can be filtered.
	filterPatience = 5 * time.Second
	// idleFiltered is how long callers of a view must not have asked for a list before those
	// of another may take its place.
	idleFiltered = time.Minute
)

// viewHash stands for a view in the bounded store. Zero: the list is as it came.
type viewHash [16]byte

func hashOf(v View) viewHash {
	key := v.Key()
	return viewHash(key[:])
}

// filteredList is a pinned list as the callers of one view see it.
type filteredList struct {
	view       View
	hash       viewHash      // of the view
	of         [32]byte      // the digest of the list as it came
	entry      *Entry        // nil if it cannot be filtered
	compressed *encoded.Body // nil if it is small
	// used is when somebody last asked for it, in Unix seconds; 0: nobody has since it
	// was made.
	used atomic.Int64
	hits atomic.Uint64 // see [FilteredList]
}

// touch notes that somebody has asked for it.
func (s *filteredList) touch(now time.Time) {
	s.hits.Add(1)
	if second := now.Unix(); s.used.Load() != second {
		s.used.Store(second)
	}
}

// VisibleTo returns e as the callers of v see it. It returns e itself if they see all of it. Use only
// the bytes of the result: e says when it was fetched, and for how long it is fresh. VisibleTo returns
// nil if e cannot be filtered, see [Entry.CanBeFiltered]. It filters large lists one after another. It
// also returns nil if ctx ends, or five seconds pass, before it can filter this one.
func (c *Cache) VisibleTo(ctx context.Context, e *Entry, v View, now time.Time) *Entry {
	if !e.restrictedBy(v) && !e.sharedDespite(v) {
		return e
	}
	q := e.question()
	q.view = hashOf(v)
	p := &c.pinned[e.Revision][e.Kind]
	if s := p.findFiltered(q.view, e.Body.Digest); s != nil {
		s.touch(now)
		return s.entry
	}
	s, full := c.addFiltered(p, e, v, now)
	switch {
	case s != nil:
		return s.entry
	case !full && e.content == nil:
		return filter(e, v)
	}
	if kept := c.keptFiltered(e, q); kept != nil {
		return kept
	}
	if e.Size() > largeBody {
		return c.filterLarge(ctx, e, v, q)
	}
	made := filter(e, v)
	if made != nil {
		c.Put(made)
	}
	return made
}

// keptFiltered returns the stored answer to that question that was made of e, or nil.
func (c *Cache) keptFiltered(e *Entry, q Question) *Entry {
	if kept := c.Get(q); kept != nil && kept.of == e.Body.Digest {
		return kept
	}
	return nil
}

// filteredKey tells filtered lists apart.
type filteredKey struct {
	at   revision.Revision
	kind revision.Kind
	view viewHash
	of   [32]byte // the digest of the list as it came
}

// filterLarge is [Cache.VisibleTo] for a large list. It filters such lists one at a time. If the store has
// no room for the result, all who use it meanwhile share it.
func (c *Cache) filterLarge(ctx context.Context, e *Entry, v View, q Question) *Entry {
	if !c.filtering.Enter(ctx, filterPatience) {
		return nil
	}
	defer c.filtering.Leave()
	if kept := c.keptFiltered(e, q); kept != nil { // it has been made meanwhile
		return kept
	}
	as := filteredKey{e.Revision, e.Kind, q.view, e.Body.Digest}
	if used := c.passes(as); used != nil {
		return used
	}
	made := filter(e, v)
	if made != nil && !c.Put(made) {
		c.passing.Store(as, weak.Make(made))
		runtime.AddCleanup(made, c.forgetFiltered, as)
	}
	return made
}

// passes returns what could not be kept and is in use, or nil.
func (c *Cache) passes(as filteredKey) *Entry {
	used, ok := c.passing.Load(as)
	if !ok {
		return nil
	}
	return used.(weak.Pointer[Entry]).Value()
}

// forgetFiltered is called when nobody uses a list any more for which the store had no room.
func (c *Cache) forgetFiltered(as filteredKey) {
	if used, ok := c.passing.Load(as); ok && used.(weak.Pointer[Entry]).Value() == nil {
		c.passing.CompareAndDelete(as, used)
	}
}

// restrictedBy reports whether items of e may be hidden by v.
func (e *Entry) restrictedBy(v View) bool { return e.Kind.ItemsKey() != "" && v.Restricts(e.Kind) }

// sharedDespite reports whether e says that everybody may be given it, or leaves that
// open, though others may be shown something else than the callers of v.
func (e *Entry) sharedDespite(v View) bool {
	return v.Personal(e.Kind) && (e.Body.Scope == message.ScopePublic || e.Body.Scope == message.ScopeUnset && e.Revision.Era() == revision.Modern)
}

// filter makes e as the callers of v see it. It returns nil if that cannot be done, see
// [Entry.CanBeFiltered].
func filter(e *Entry, v View) *Entry {
	f, ok := e.framed(v)
	if !ok {
		return nil
	}
	made := *e
	made.content, made.view, made.of = nil, hashOf(v), e.Body.Digest
	made.Body = message.Pick(e.Kind, e.Body, f.before, f.items, f.after, func(item []byte) bool { return v.Shows(e.Kind, item) })
	if e.sharedDespite(v) {
		made.Body.Scope = message.ScopePrivate
	}
	return &made
}

// CanBeFiltered reports whether the cache can hide items of e from the callers of v. It cannot if e
// has a second list in it, which may have hidden items, too.
func (e *Entry) CanBeFiltered(v View) bool {
	_, ok := e.framed(v)
	return ok
}

// framed is the items of a list, and what is around those that are shown of it.
type framed struct {
	before, after []byte
	items         iter.Seq[[]byte]
}

// framed returns e as it is before its items are hidden from the callers of v. ok is false if
// that cannot be said.
func (e *Entry) framed(v View) (f framed, ok bool) {
	f.before, f.items, f.after = e.takeApart()
	if e.restrictedBy(v) && message.OtherLists(e.Kind, f.before, f.after) {
		return f, false
	}
	if e.sharedDespite(v) {
		var err error
		if f.before, f.after, err = message.Private(f.before, f.after, true); err != nil {
			return f, false
		}
	}
	return f, true
}

// Each goes through the items of a list, as written.
func (e *Entry) Each() iter.Seq[[]byte] {
	_, items, _ := e.takeApart()
	return items
}

// takeApart returns what of the bytes of a list is before the first item, the items, and
// what is after the last one.
func (e *Entry) takeApart() (before []byte, items iter.Seq[[]byte], after []byte) {
	if c := e.content; c != nil {
		return c.before, func(yield func([]byte) bool) {
			for _, i := range c.items {
				if !yield(i.bytes) {
					return
				}
			}
		}, c.after
	}
	before, after = e.Body.Ends()
	return before, e.Body.Each(), after
}

// FilteredList is a pinned list that is ready as the callers of one view see it.
type FilteredList struct {
	// View is the key of the view, see [View].
	View     [32]byte
	Revision revision.Revision
	Kind     revision.Kind
	Items    int
	// Bytes is the size of the list, without what of it is compressed.
	Bytes int
	// Hits is how often it was asked for, also before a change.
	Hits uint64
}

// FilteredLists returns all filtered lists that are ready.
func (c *Cache) FilteredLists() []FilteredList {
	var lists []FilteredList
	for r := range c.pinned {
		for k := range c.pinned[r] {
			ready, pinned := c.pinned[r][k].filtered.Load(), c.pinned[r][k].entry.Load()
			if ready == nil || pinned == nil {
				continue
			}
			for _, s := range *ready {
				if s.entry != nil && s.of == pinned.Body.Digest {
					lists = append(lists, FilteredList{
						View: s.view.Key(), Revision: pinned.Revision, Kind: pinned.Kind,
						Items: s.entry.Body.Items, Bytes: s.entry.Size(), Hits: s.hits.Load(),
					})
				}
			}
		}
	}
	return lists
}

// findFiltered returns the filtered list that is ready for a view of the list with that digest, or nil.
func (p *pin) findFiltered(view viewHash, of [32]byte) *filteredList {
	ready := p.filtered.Load()
	if ready == nil {
		return nil
	}
	for _, s := range *ready {
		if s.of == of && s.hash == view {
			return s
		}
	}
	return nil
}

// addFiltered makes e ready for a view, if its bytes are pinned at p. full is true if too many other
// views are in use.
func (c *Cache) addFiltered(p *pin, e *Entry, v View, now time.Time) (s *filteredList, full bool) {
	if !p.has(e) {
		return nil, false
	}
	c.pinning.Lock()
	defer c.pinning.Unlock()
	if s := p.findFiltered(hashOf(v), e.Body.Digest); s != nil {
		s.touch(now)
		return s, false
	}
	if !p.has(e) {
		return nil, false
	}
	for len(p.ready) >= maxFiltered || c.readyBytes()+int64(e.Size()) > c.readyLimit.Load() {
		if !c.dropIdle(p, now) {
			return nil, true
		}
	}
	s = c.makeFiltered(e, v)
	s.touch(now)
	p.ready = append(slices.Clip(p.ready), s)
	p.publish(p.ready)
	if s.compressed != nil {
		c.compressed.Want(s.compressed, s.entry, encoded.Plain, now.Unix())
	}
	return s, false
}

// dropIdle drops the list at p that nobody has asked for the longest, if that is long
// enough. It reports whether there was one. The caller holds c.pinning.
func (c *Cache) dropIdle(p *pin, now time.Time) bool {
	if len(p.ready) == 0 {
		return false
	}
	oldest := slices.MinFunc(p.ready, func(a, b *filteredList) int { return int(a.used.Load() - b.used.Load()) })
	if now.Unix()-oldest.used.Load() < int64(idleFiltered/time.Second) {
		return false
	}
	p.ready = slices.DeleteFunc(slices.Clone(p.ready), func(s *filteredList) bool { return s == oldest })
	p.publish(p.ready)
	c.compressed.Release(oldest.compressed)
	return true
}

// readyBytes returns how many bytes all lists that are ready take. The caller holds
// c.pinning.
func (c *Cache) readyBytes() (bytes int64) {
	for r := range c.pinned {
		for k := range c.pinned[r] {
			bytes += filteredBytes(c.pinned[r][k].ready)
		}
	}
	return bytes
}

func filteredBytes(lists []*filteredList) (bytes int64) {
	for _, s := range lists {
		if s.entry != nil {
			bytes += int64(s.entry.Size())
		}
	}
	return bytes
}

// has reports whether e, or what has the same bytes, is pinned.
func (p *pin) has(e *Entry) bool {
	last := p.entry.Load()
	return last != nil && last.Body.Digest == e.Body.Digest
}

// makeFiltered makes e as the callers of a view see it, and holds its compressed bytes.
func (c *Cache) makeFiltered(e *Entry, v View) *filteredList {
	s := &filteredList{view: v, hash: hashOf(v), of: e.Body.Digest, entry: filter(e, v)}
	if s.entry != nil {
		s.compressed = c.compressed.Hold(s.entry)
	}
	return s
}

// filterPinned makes e ready for the views whose callers have asked for the list at p, before e is pinned
// there. Lists of the same bytes that are ready already stay as they are. The caller holds c.pinning, and
// has to pass the result to [Cache.replaceFiltered].
func (c *Cache) filterPinned(p *pin, e *Entry) []*filteredList {
	var made []*filteredList
	room := c.readyLimit.Load() - c.readyBytes() + filteredBytes(p.ready)
	for _, s := range p.ready {
		switch {
		case s.of == e.Body.Digest:
			if s.entry != nil {
				c.compressed.Hold(s.entry) // replaceFiltered releases it
			}
			made = append(made, s)
		case s.used.Load() != 0 && filteredBytes(made)+int64(e.Size()) <= room:
			again := c.makeFiltered(e, s.view)
			again.hits.Store(s.hits.Load())
			made = append(made, again)
		}
	}
	return made
}

// publish lets hits find the lists that are ready.
func (p *pin) publish(ready []*filteredList) {
	if len(ready) == 0 {
		p.filtered.Store(nil)
		return
	}
	p.filtered.Store(&ready)
}

// replaceFiltered replaces the lists that were ready. The caller holds c.pinning.
func (c *Cache) replaceFiltered(p *pin, made []*filteredList) {
	p.publish(made)
	for _, old := range p.ready {
		c.compressed.Release(old.compressed)
	}
	p.ready = made
}

// eachCompressible goes through all of p that is to be compressed. The caller holds
// c.pinning.
func (p *pin) eachCompressible() iter.Seq2[*encoded.Body, *Entry] {
	return func(yield func(*encoded.Body, *Entry) bool) {
		e, body := p.entry.Load(), p.compressed.Load()
		if e != nil && body != nil && !yield(body, e) {
			return
		}
		for _, s := range p.ready {
			if s.compressed != nil && !yield(s.compressed, s.entry) {
				return
			}
		}
	}
}
