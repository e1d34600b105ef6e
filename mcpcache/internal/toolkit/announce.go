package toolkit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// reconcileEvery is how often the endpoint reconciles its lists without a change of a server's list. A
// list may be too old by then, or a server may have given an era up.
const reconcileEvery = time.Second

// announce joins the servers' lists whenever one of them has changed, and notifies the clients that
// listen, until ctx ends. Before that, it gives all servers the time of the gate.
func (e *Endpoint) announce(ctx context.Context) {
	for _, s := range e.servers {
		stop := s.Cache.OnPin(func(revision.Revision, revision.Kind, bool) { e.reconcileSoon() })
		defer stop()
	}
	for _, r := range eras {
		e.await(ctx, r, e.servers)
	}
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		e.reconcile(ctx)
		select {
		case <-e.changed:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// reconcileSoon wakes announce.
func (e *Endpoint) reconcileSoon() {
	flight.Signal(e.changed)
}

// reconcile compares the lists as they are now with the ones that clients know, and publishes what has
// changed.
func (e *Endpoint) reconcile(ctx context.Context) {
	e.reconciling <- struct{}{}
	defer func() { <-e.reconciling }()
	now := time.Now()
	for _, r := range eras {
		for _, k := range notices.Kinds {
			l, seen, notified := published{e.joinNow(r, k, now), e.ofCallers(k)}, &e.seen[r.Era()][k], &e.notified[r.Era()][k]
			first := seen.list == nil
			news := e.publisher().Publish(r.Era(), k, l.digest(), first || e.isAnnounced(seen.list, l.list) || seen.ofCallers != l.ofCallers)
			if news {
				e.agree(ctx, k, *notified, l)
				e.publisher().Notify(r.Era(), k)
			}
			if *seen = l; first || news {
				*notified = l
			}
		}
	}
}

// joinNow joins the lists that the servers have now. If clients got a list without a server's part,
// joinNow leaves the part out. The next list has the part, if it is there again.
func (e *Endpoint) joinNow(r revision.Revision, k revision.Kind, now time.Time) *catalog.List {
	parts := e.parts(r, k, now)
	for i, s := range e.servers {
		if s.Credentials.isPersonal() || !s.withheld[r.Era()][k].Load() {
			continue
		}
		if s.verdict(parts[i], now) != freshness.Withheld {
			s.withheld[r.Era()][k].Store(false)
			e.reconcileSoon()
		}
		parts[i] = nil
	}
	return e.join(newestOf(r), k, parts)
}

// agree publishes to all other instances the lists of which this one is about to notify its clients. It
// waits until the others have outdated their lists that differ, as any caller may know of the new ones
// then. before is the list of the last notice.
func (e *Endpoint) agree(ctx context.Context, k revision.Kind, before, now published) {
	for i, s := range e.servers {
		part, last := now.list.Parts[i], (*cache.Entry)(nil)
		if before.list != nil {
			last = before.list.Parts[i]
		}
		if s.Credentials.isPersonal() {
			s.Cache.NoteNotified(k, s.Cache.Mark(k))
			if before.list != nil && before.ofCallers != now.ofCallers {
				s.Cache.PublishChange(cache.Change{Kinds: revision.SetOf(k), Told: true, Again: true})
			}
		}
		if part != nil {
			s.Cache.NoteNotified(k, part.Mark)
		}
		if part != nil && (last == nil || part.Body.ItemsDigest != last.Body.ItemsDigest) {
			s.Cache.PublishChange(cache.Change{Lists: []cache.Listed{{
				Revision: part.Revision, Kind: k, Items: part.Body.ItemsDigest, Outdated: s.Cache.Mark(k).Announced() != part.Mark.Announced(),
			}}})
		}
		s.Fleet.Settle(ctx)
	}
}

// published is what stands for a list as it is now.
type published struct {
	list *catalog.List
	// ofCallers changes whenever a server has announced a change that may show single callers
	// other lists, which are not asked for here, or when it delivers one again that was withheld.
	ofCallers notices.Digest
}

// ofCallers returns that of a kind; the zero value if there are no such servers.
func (e *Endpoint) ofCallers(k revision.Kind) (d notices.Digest) {
	if !e.personal {
		return d
	}
	var epochs []byte
	for _, s := range e.servers {
		if s.Credentials.isPersonal() {
			epochs = binary.BigEndian.AppendUint64(epochs, s.Cache.Mark(k).Announced())
			epochs = binary.BigEndian.AppendUint64(epochs, s.returned[k].Load())
		}
	}
	return sha256.Sum256(epochs)
}

func (p published) digest() notices.Digest {
	items := p.list.Entry.Body.ItemsDigest
	if p.ofCallers == (notices.Digest{}) {
		return items
	}
	return sha256.Sum256(append(items[:], p.ofCallers[:]...))
}

// isAnnounced reports whether a server has announced a change between two lists, or is there,
// or is not, all of a sudden. A list of which another
// instance has notified its clients counts as announced.
func (e *Endpoint) isAnnounced(before, now *catalog.List) bool {
	for i, part := range now.Parts {
		last := before.Parts[i]
		switch {
		case part == last:
		case part == nil || last == nil || part.Revision != last.Revision:
			return true
		case part.Mark.Announced() != last.Mark.Announced():
			return true
		case part.Body.ItemsDigest != last.Body.ItemsDigest && e.servers[i].Cache.IsNotifiedElsewhere(part):
			return true
		}
	}
	return false
}
