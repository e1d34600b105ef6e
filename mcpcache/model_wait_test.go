package mcpcache

import (
	"context"
	"net/http/httptest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// prospect is what a caller may count on as its request begins: promise 7.
type prospect struct {
	// fresh says that the answer comes from the cache, at once; notices is how
	// many there had been.
	fresh   bool
	notices int
	// items and lifetime are those of the copy.
	items [32]byte
	// snapshot are the items of the feed's list, by which it is known what clients
	// of other variants are shown.
	snapshot [32]byte
	lifetime time.Duration
	// stale says that the answer comes within a second, for which there is this copy.
	stale bool
	copy  *cache.Entry
}

// prospectOf looks for a copy that this caller may be given. The product says
// who it takes the caller for, and what copies there are; what follows from that
// is the test's own opinion.
func (w *world) prospectOf(x *call, u *upstream) (p prospect) {
	if !x.list || x.unknown || x.cursor || x.kind == revision.Reads {
		return prospect{}
	}
	now := time.Now()
	rec := httptest.NewRecorder()
	r := caddyhttp.PrepareRequest(x.build(context.Background()), caddy.NewReplacer(), rec, new(caddyhttp.Server))
	look, ok := u.endpoint.Look(rec, r)
	if !ok {
		return prospect{}
	}
	found := look.Entry
	_, own := x.before.own[x.session]
	freshness := u.backend.Cache.Freshness(found, now)
	p.fresh = look.Fresh && freshness == cache.Fresh && look.Pending == nil && look.NoticeSeen == nil && !own &&
		(x.session == "" || !u.backend.Feeds.SuspectsSessions())
	if e := u.backend.Cache.Pinned(x.c.rev, x.kind); e != nil {
		p.snapshot = e.Body.ItemsDigest
	}
	p.copy, p.notices, p.items, p.lifetime = found, len(w.up.notices), found.Body.ItemsDigest, found.Lifetime
	told := !x.before.toldAt.IsZero() && (look.NoticeSeen == nil || !found.Mark.Since(look.NoticeSeen.Mark))
	if look.NoticeSeen == nil && found.Fetched.After(x.before.toldAt) && freshness != cache.Outdated {
		told = false
	}
	// Whom the process before has told of a change is not known.
	told = told || found.Mark.BeforeStart()
	p.stale = !told && !own && w.cfg.stale > 0 && -found.Left(now) < w.cfg.stale
	return p
}

// promisedPatience is how long a caller waits at most who can be given a stale
// copy (promise 7).
const promisedPatience = time.Second

// checkWait is promise 7: nobody waits who can be given a fresh copy, and nobody
// for more than a second who can be given a stale one, unless told of a change.
func (w *world) checkWait(x *call, from answerOrigin) {
	waited := time.Since(x.before.at)
	// What others learn at the same moment may take a copy away.
	alone := w.crowd[x.moment] == 1
	switch {
	case alone && x.before.prospect.stale && waited > promisedPatience && !w.toldMeanwhile(x):
		w.fail("%s: waited %s, and there was a copy", x, waited)
	case alone && x.before.prospect.fresh && waited > 0 && x.before.prospect.notices == len(w.up.notices):
		w.fail("%s: waited %s, and there was a fresh copy", x, waited)
	case x.mustHit && from != fromCache:
		w.fail("%s: the mistake of another has cost it a hit", x)
	}
}

// toldMeanwhile reports whether the caller was told of a change while it waited. In a fleet, the instance
// knows that up to two seconds before the caller does: the others hear of it first. Of other
// instances' clients, some may be told before it is answered.
func (w *world) toldMeanwhile(x *call) bool {
	if (w.cfg.fleet || w.cfg.several) && x.at.server.backend.Cache.MayBeKnown(x.before.prospect.copy) {
		return true
	}
	patience := promisedPatience
	if w.cfg.fleet {
		patience = 2 * time.Second
	}
	told := x.at.truth.toldAt[callerOf(x.session, x.ctx, x.c.rev.String())][x.kind]
	return !told.Before(x.before.at) && !told.After(x.before.at.Add(patience))
}
