package cache

import (
	"iter"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// View chooses what of a list its callers are shown. It is immutable.
type View interface {
	// Key tells the view from all that show something else.
	Key() [32]byte
	// Restricts reports whether items of that kind may be hidden.
	Restricts(k revision.Kind) bool
	// Shows reports whether an item is shown, as written in a list.
	Shows(k revision.Kind, item []byte) bool
}

// viewHash stands for a view in the bounded store. Zero: the list is as it came.
type viewHash [16]byte

func hashOf(v View) viewHash {
	key := v.Key()
	return viewHash(key[:])
}

// shown is a pinned list as the callers of one view are shown it.
type shown struct {
	view       viewHash
	of         [32]byte      // the digest of the list as it came
	entry      *Entry        // nil if it cannot be shown
	compressed *encoded.Body // nil if it is small
}

// UseViews has all that is pinned ready as the callers of those views are shown it.
// Callers of other views are shown it too, made for each of them.
func (c *Cache) UseViews(views []View) {
	c.pinning.Lock()
	defer c.pinning.Unlock()
	c.views = views
	for r := range c.pinned {
		for k := range c.pinned[r] {
			p := &c.pinned[r][k]
			if e := p.entry.Load(); e != nil {
				c.replaceShown(p, c.showPinned(p, e))
				c.compressPinned(p, false, time.Now())
			}
		}
	}
}

// Shown returns e as the callers of v are shown it: e itself if nothing of its kind may
// be hidden. Only its bytes are to be used: when it was fetched, and for how long it is
// fresh, is what e says. It returns nil if there is another list in e besides its own.
func (c *Cache) Shown(e *Entry, v View) *Entry {
	if e.Kind.ItemsKey() == "" || !v.Restricts(e.Kind) {
		return e
	}
	q := e.question()
	q.view = hashOf(v)
	if s := c.pinned[e.Revision][e.Kind].findShown(q.view, e.Body.Digest); s != nil {
		return s.entry
	}
	if e.content == nil {
		return show(e, v)
	}
	if kept := c.Get(q); kept != nil && kept.of == e.Body.Digest {
		return kept
	}
	made := show(e, v)
	if made != nil {
		c.Put(made)
	}
	return made
}

// show makes e as the callers of v are shown it. It returns nil if there is another list
// in it, of which nobody knows whether it may be shown.
func show(e *Entry, v View) *Entry {
	before, items, after := e.takeApart()
	if message.OtherLists(e.Kind, before, after) {
		return nil
	}
	made := *e
	made.content, made.view, made.of = nil, hashOf(v), e.Body.Digest
	made.Body = message.Pick(e.Kind, e.Body, before, items, after, func(item []byte) bool { return v.Shows(e.Kind, item) })
	return &made
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

// findShown returns what is ready for a view of the list that has that digest, or nil.
func (p *pin) findShown(view viewHash, of [32]byte) *shown {
	ready := p.shown.Load()
	if ready == nil {
		return nil
	}
	for i := range *ready {
		if s := &(*ready)[i]; s.of == of && s.view == view {
			return s
		}
	}
	return nil
}

// showPinned makes e ready for all views, before it is pinned at p. What is ready
// already, of the same bytes, stays as it is. The caller holds c.pinning, and has to
// hand the result to [Cache.replaceShown].
func (c *Cache) showPinned(p *pin, e *Entry) []shown {
	var made []shown
	for _, v := range c.views {
		if e.Kind.ItemsKey() == "" || !v.Restricts(e.Kind) {
			continue
		}
		one := shown{view: hashOf(v), of: e.Body.Digest}
		if known := p.findShown(one.view, one.of); known != nil {
			one.entry = known.entry
		} else {
			one.entry = show(e, v)
		}
		if one.entry != nil {
			one.compressed = c.compressed.Hold(one.entry)
		}
		made = append(made, one)
	}
	return made
}

// publish has hits find what is ready.
func (p *pin) publish(ready []shown) {
	if len(ready) == 0 {
		p.shown.Store(nil)
		return
	}
	p.shown.Store(&ready)
}

// replaceShown puts what is ready in the place of what was. The caller holds c.pinning.
func (c *Cache) replaceShown(p *pin, made []shown) {
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
