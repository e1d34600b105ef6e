package toolkit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// lookEvery is how often the lists are looked at for what is no change of a server's list:
// one that is too old to be given any more, or an era that a server has given up.
const lookEvery = time.Second

// announce joins the servers' lists whenever one of them has changed, and has those who listen
// told, until ctx ends. Before that, all servers get the time of the gate to be there.
func (e *Endpoint) announce(ctx context.Context) {
	for _, s := range e.servers {
		stop := s.Cache.OnPin(func(revision.Revision, revision.Kind, bool) { e.lookSoon() })
		defer stop()
	}
	for _, r := range eras {
		e.await(ctx, r, e.servers)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		e.look(ctx)
		select {
		case <-e.changed:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// lookSoon has the lists looked at.
func (e *Endpoint) lookSoon() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// look publishes the lists as they are now.
func (e *Endpoint) look(ctx context.Context) {
	e.looking.Lock()
	defer e.looking.Unlock()
	now := time.Now()
	for _, r := range eras {
		for _, k := range notices.Kinds {
			l, seen := published{e.joined(r, k, now), e.ofCallers(k)}, &e.seen[r.Era()][k]
			if seen.list != nil && l.digest() != seen.digest() {
				e.agree(ctx, k, seen.list, l.list)
			}
			e.publisher().Publish(r.Era(), k, l.digest(), seen.list == nil || isAnnounced(seen.list, l.list) || seen.ofCallers != l.ofCallers)
			*seen = l
		}
	}
}

// agree waits until other instances have outdated what has changed between two lists, as clients
// are about to hear of it here. Of what no server has announced, they hear now.
func (e *Endpoint) agree(ctx context.Context, k revision.Kind, before, now *catalog.List) {
	for i, part := range now.Parts {
		last, s := before.Parts[i], e.servers[i]
		if part != nil && last != nil && part.Mark.SameEpoch(last.Mark) && part.Body.ItemsDigest != last.Body.ItemsDigest {
			s.Cache.TellOthers(cache.Change{Kinds: revision.SetOf(k)})
		}
		s.Fleet.Settle(ctx)
	}
}

// published is what stands for a list as it is now.
type published struct {
	list *catalog.List
	// ofCallers changes whenever a server has announced a change that may show single callers
	// other lists, which are not asked for here.
	ofCallers notices.Digest
}

// ofCallers returns that of a kind; the zero value if there are no such servers.
func (e *Endpoint) ofCallers(k revision.Kind) (d notices.Digest) {
	if !e.personal {
		return d
	}
	var epochs []byte
	for _, s := range e.servers {
		if s.Carries.isPersonal() {
			epochs = binary.BigEndian.AppendUint64(epochs, s.Cache.Mark(k).Epoch())
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
// or is not, all of a sudden.
func isAnnounced(before, now *catalog.List) bool {
	for i, part := range now.Parts {
		last := before.Parts[i]
		switch {
		case part == last:
		case part == nil || last == nil || part.Revision != last.Revision:
			return true
		case !part.Mark.SameEpoch(last.Mark):
			return true
		}
	}
	return false
}
