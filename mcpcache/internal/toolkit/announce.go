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

// reconcileEvery is how often the lists are looked at for what is no change of a server's list:
// one that is too old to be given any more, or an era that a server has given up.
const reconcileEvery = time.Second

// announce joins the servers' lists whenever one of them has changed, and has those who listen
// told, until ctx ends. Before that, all servers get the time of the gate to be there.
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

// reconcileSoon has the lists looked at.
func (e *Endpoint) reconcileSoon() {
	flight.Signal(e.changed)
}

// reconcile publishes the lists as they are now.
func (e *Endpoint) reconcile(ctx context.Context) {
	e.reconciling <- struct{}{}
	defer func() { <-e.reconciling }()
	now := time.Now()
	for _, r := range eras {
		for _, k := range notices.Kinds {
			l, seen, told := published{e.joinNow(r, k, now), e.ofCallers(k)}, &e.seen[r.Era()][k], &e.notified[r.Era()][k]
			first := seen.list == nil
			news := e.publisher().Publish(r.Era(), k, l.digest(), first || e.isAnnounced(seen.list, l.list) || seen.ofCallers != l.ofCallers)
			if news {
				e.agree(ctx, k, *told, l)
				e.publisher().Notify(r.Era(), k)
			}
			if *seen = l; first || news {
				*told = l
			}
		}
	}
}

// joinNow returns the list of what the servers have now, without the parts that clients were given
// a list without. Those are in the next one, if they are there again.
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

// agree tells all other instances which lists of the servers this one is about to tell its clients of. It waits
// until they have outdated what differs, as any caller may know of these lists then. before is the list that
// clients were told of last.
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
// or is not, all of a sudden. A list that another instance has told its clients of counts as announced.
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
