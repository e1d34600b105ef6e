package toolkit

import (
	"context"
	"math"
	"runtime"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/reply"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// shortPatience is how long a list waits for a part that is never fresh, and is asked for anew
// each time.
const shortPatience = 250 * time.Millisecond

// list answers with a joined list.
func (q *request) list() error {
	k, _ := revision.KindOf(q.in.Method)
	q.kind = k
	if q.in.Message.Cursor != nil {
		return q.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, "Invalid cursor: the list has one page"))
	}
	e := q.endpoint
	g := q.take(k)
	switch {
	case g.refused != nil:
		q.outcome, q.status = outcome.Bypass, statusAdmission
		return q.fail(q.reject(g.refused.Status, g.refused.WWWAuthenticate))
	case g.list == nil:
		q.outcome = outcome.Bypass
		return q.fail(q.noRoom("there is no memory left for a list of that size: try again"))
	}
	q.outcome, q.status, q.left = g.outcome, g.status, g.left
	q.noteServed(k, g)
	defer e.cache.Release(g.list.Entry)
	defer runtime.KeepAlive(g.list) // others find it meanwhile
	ttl := time.Duration(-1)        // which legacy lists have none of
	if q.at.Era() == revision.Modern {
		ttl = max(g.left, 0)
	}
	stream, _ := inbound.Accepts(q.r.Header["Accept"])
	answer := reply.Reply{
		Asker: q, ID: q.in.Message.ID, Entry: g.list.Entry, TTL: ttl, Stream: stream,
		Accept: q.r.Header["Accept-Encoding"], Now: q.now, Values: &q.values,
		Counts: e.cache.Counts(g.list.Entry) > 0,
	}
	if e.Settings.Precompress {
		answer.Cache = e.cache
	}
	answer.Write(q.w)
	return nil
}

// listAnswer is the list that a caller gets.
type listAnswer struct {
	list    *catalog.List       // nil: there is no memory for it, or the caller is refused
	outcome outcome.Outcome     // how it was come by
	status  string              // what Cache-Status says besides
	left    time.Duration       // of its freshness
	refused *client.StatusError // by the door; nil: the caller is not
}

// noteServed tells the feeds that a client gets their lists, which are parts of the answer.
func (v *viewer) noteServed(k revision.Kind, g listAnswer) {
	now := feed.Occasions()
	if g.outcome != outcome.Hit || g.list.Told.Load() == now {
		return
	}
	defer g.list.Told.Store(now)
	for i, server := range v.endpoint.servers {
		part := g.list.Parts[i]
		if part == nil || part.Lifetime == 0 || server.Credentials.isPersonal() && part != server.pinned(server.at(v.at), k) {
			continue
		}
		if f := server.Feeds.Of(part.Revision); f != nil {
			f.List(k).Asked()
		}
	}
}

// take returns the list that the caller is given, which has to be released.
func (v *viewer) take(k revision.Kind) listAnswer {
	own := v.endpoint.cache
	g := v.current(k)
	v.admittedBy = nil // it may be large, and counts nowhere
	if g.list == nil || own.Hold(g.list.Entry) {
		return g
	}
	return v.takeLater(k, own.Counts(g.list.Entry))
}

// takeLater is take once there are so many bytes of memory for the list.
func (v *viewer) takeLater(k revision.Kind, room int64) (g listAnswer) {
	held := v.endpoint.cache.HoldSoon(v.r.Context(), v.endpoint.firstPatience(), room, func() *cache.Entry {
		v.now = time.Now()
		if g = v.current(k); g.list == nil {
			return nil
		}
		return g.list.Entry
	})
	if !held {
		g.list = nil
	}
	return g
}

// current returns the list of a kind as the caller is given it now: see [viewer.join].
func (v *viewer) current(k revision.Kind) listAnswer {
	l := v.last(k)
	left, ok := v.isFresh(l, k)
	if !ok {
		return v.freshen(k)
	}
	return listAnswer{list: l, outcome: outcome.Hit, left: left}
}

// isFresh reports whether a list is what it would be if it were joined now of parts that
// are all fresh, and for how long yet.
func (v *viewer) isFresh(l *catalog.List, k revision.Kind) (left time.Duration, ok bool) {
	if l == nil {
		return 0, false
	}
	left = forever
	for i, server := range v.endpoint.servers {
		part := v.listed(server, k)
		switch {
		case part != l.Parts[i]:
			return 0, false
		case part == nil:
			counts, lacking := v.isLacking(server, k)
			if !lacking {
				return 0, false
			}
			left = min(left, counts)
		case server.Cache.Freshness(part, v.now) != cache.Fresh:
			return 0, false
		default:
			left = min(left, server.Cache.Left(part, v.now))
		}
	}
	return bounded(left), true
}

const (
	// forever is for how long a list of nothing would be fresh, and what a server has said when its
	// session was opened.
	forever = time.Duration(math.MaxInt64)
	// emptyLeft is for how long a list is fresh that no server has a part in.
	emptyLeft = time.Minute
)

// bounded returns for how long a list is fresh, of which nothing says that it ever ends.
func bounded(left time.Duration) time.Duration {
	if left > forever/2 { // some of it may have passed
		return emptyLeft
	}
	return left
}

// part is what a caller is given of one server.
type part struct {
	entry    *cache.Entry // nil: nothing
	verdict  freshness.Verdict
	fetch    fetch // nil: the server is not asked
	answered bool  // the entry is what the server has answered
}

// freshen joins a list of the servers' parts as they are now. It waits for those that have
// to be fetched, all at the same time, and takes their last ones if they do not come. A part
// that lacks a change of which any caller may know is left out then.
func (v *viewer) freshen(k revision.Kind) listAnswer {
	servers := v.endpoint.servers
	v.awaitServers(servers)
	parts := make([]part, len(servers))
	for i, server := range servers {
		p := &parts[i]
		p.entry = v.listed(server, k)
		if p.verdict = server.verdict(p.entry, v.now); p.verdict != freshness.Fresh {
			p.fetch = v.demand(server, k, p.entry)
		}
	}
	g := listAnswer{outcome: outcome.Hit, left: forever}
	for i, server := range servers {
		refused := v.await(server, &parts[i])
		if refused != nil && server == v.endpoint.door {
			g.refused = refused
		}
		if parts[i].answered {
			g.outcome = outcome.Miss
		}
	}
	entries := v.weigh(k, parts, &g) // at the same moment, for however long one was waited for
	if g.refused == nil {
		g.list = v.join(k, entries)
	}
	return g
}

// weigh returns the entries of those parts that the caller is given, and fills in what that says of the list.
func (v *viewer) weigh(k revision.Kind, parts []part, g *listAnswer) []*cache.Entry {
	entries := make([]*cache.Entry, len(parts))
	stale, partial := false, false
	for i, server := range v.endpoint.servers {
		p := parts[i]
		var left time.Duration
		switch {
		case p.answered:
			left = p.entry.Left(v.now)
		case p.entry == nil:
			counts, lacking := v.isLacking(server, k)
			partial, g.left = partial || !lacking, min(g.left, counts)
			continue
		case p.verdict == freshness.Withheld:
			v.withhold(server, k, p.entry)
			partial = true
			continue
		default:
			stale, left = stale || p.verdict.IsStale(), server.Cache.Left(p.entry, v.now)
		}
		server.has(v.at, k)
		entries[i], g.left = p.entry, min(g.left, left)
	}
	g.left = bounded(g.left)
	switch {
	case partial:
		g.status, g.left = statusPartial, min(g.left, 0)
	case stale:
		g.status = statusStale
	}
	if stale && g.outcome == outcome.Hit {
		g.outcome = outcome.Stale
	}
	return entries
}

// withhold notes that the caller is given a list without a server's part. The server may have answered somebody
// in the same moment: then clients are told at once.
func (v *viewer) withhold(s *Server, k revision.Kind, part *cache.Entry) {
	s.withheld[v.at.Era()][k].Store(true)
	if e := v.listed(s, k); s.Credentials.isPersonal() && e != nil && e.Fetched.After(part.Fetched) {
		s.deliver(v.at, k)
	}
}

// await waits for a part's fetch, and takes its answer over. The wait is counted from the beginning of the fetch, so
// that other requests may have used it up. await returns the server's refusal of the caller, or nil.
func (v *viewer) await(s *Server, p *part) *client.StatusError {
	if p.fetch == nil {
		return nil
	}
	limit := freshness.StalePatience
	switch {
	case p.entry == nil && s.Credentials.isPersonal():
		limit = v.endpoint.firstPatience()
	case p.entry != nil && p.verdict == freshness.Withheld:
		limit = freshness.Patience
	case p.entry != nil && p.entry.Lifetime == 0:
		limit = shortPatience
	}
	e, err := v.wait(p.fetch, limit)
	refused := statusOf(err)
	if refused != nil {
		v.revoke(s)
	}
	switch {
	case v.isAnswer(e, p.entry):
		p.entry, p.answered = e, true
	case refused != nil && s.Credentials.isPersonal():
		p.entry = nil // it is from a time when the server let the caller in
	}
	return refused
}

// isAnswer reports whether a list that was waited for may be given as the server's answer: not where
// another instance was waited for in vain, or has brought a list that is too old by now. last is the part
// as it was.
func (v *viewer) isAnswer(e, last *cache.Entry) bool {
	switch {
	case e == nil:
		return false
	case e.Lifetime == 0:
		return e != last
	}
	return e.Left(v.now) > 0 || e.Fetched.After(v.arrived)
}

// awaitServers waits until all of those servers have been asked once, but for none longer
// than the gate after its feed began.
func (v *viewer) awaitServers(servers []*Server) {
	if v.endpoint.await(v.r.Context(), v.at, servers) {
		v.now = time.Now()
	}
}

// await is awaitServers for clients of the era of r. It reports whether it had to wait.
func (e *Endpoint) await(ctx context.Context, r revision.Revision, servers []*Server) (waited bool) {
	for _, server := range servers {
		server.Run() // the request may have come before that
	}
	asked := time.Now()
	for _, server := range servers {
		waited = server.AwaitStored(ctx, asked) || waited
		server.Feeds.Run()
		server.Feeds.Start(newestOf(r)) // it need not wait for the other era any longer
		for f := e.gated(server, r); f != nil && ctx.Err() == nil; f = e.gated(server, r) {
			timer := time.NewTimer(time.Until(f.Began().Add(e.Settings.Gate)))
			select {
			case <-f.Attempted():
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			waited = true
		}
	}
	return waited
}

// gated returns a feed to wait for until it is known at which revision a server is shown to
// clients of the era of r, and its lists are there; nil for none. The other era is of no
// interest if it speaks theirs.
func (e *Endpoint) gated(s *Server, r revision.Revision) *feed.Feed {
	for _, newest := range []revision.Revision{newestOf(r), otherOf(r)} {
		spoken := false
		for at := newest; at > revision.Unknown && at.Era() == newest.Era(); at-- {
			f := s.Feeds.Of(at)
			switch {
			case f == nil:
			case e.isGated(f):
				return f
			default:
				spoken = spoken || f.Speaks()
			}
		}
		if spoken {
			break
		}
	}
	return nil
}

// isGated reports whether a feed has not asked its server for everything yet, and is worth
// waiting for.
func (e *Endpoint) isGated(f *feed.Feed) bool {
	select {
	case <-f.Attempted():
		return false
	default:
		return time.Since(f.Began()) < e.Settings.Gate
	}
}

// joined returns the list of what the servers have now, whether or not it is fresh.
func (e *Endpoint) joined(r revision.Revision, k revision.Kind, now time.Time) *catalog.List {
	return e.join(newestOf(r), k, e.parts(r, k, now))
}

// parts returns what the servers have now, as their feeds are shown it.
func (e *Endpoint) parts(r revision.Revision, k revision.Kind, now time.Time) []*cache.Entry {
	parts := make([]*cache.Entry, len(e.servers))
	for i, s := range e.servers {
		parts[i] = s.part(r, k, now)
	}
	return parts
}

// AppendStatus implements [reply.Asker].
func (q *request) AppendStatus(dst []byte) []byte {
	if q.outcome == outcome.Miss {
		dst = q.endpoint.status.AppendFetched(dst)
	} else {
		dst = q.endpoint.status.AppendHit(dst, q.left)
	}
	return append(dst, q.status...)
}
