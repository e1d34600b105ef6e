package toolkit

import (
	"context"
	"math"
	"runtime"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
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
func (v *visit) list() error {
	k, _ := revision.KindOf(v.in.Method)
	v.kind = k
	if v.in.Message.Cursor != nil {
		return v.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, "Invalid cursor: the list has one page"))
	}
	e := v.endpoint
	l := v.take(k)
	if v.refused != nil {
		v.outcome, v.status = outcome.Bypass, statusAdmission
		return v.fail(v.refused)
	}
	if l == nil {
		v.outcome, v.status = outcome.Bypass, ""
		return v.fail(v.noRoom("there is no memory left for a list of that size: try again"))
	}
	v.gives(l)
	defer e.cache.Release(l.Entry)
	defer runtime.KeepAlive(l) // others find it meanwhile
	ttl := time.Duration(-1)   // which legacy lists have none of
	if v.at.Era() == revision.Modern {
		ttl = max(v.left, 0)
	}
	stream, _ := inbound.Accepts(v.r.Header["Accept"])
	answer := reply.Reply{
		Asker: v, ID: v.in.Message.ID, Entry: l.Entry, TTL: ttl, Stream: stream,
		Accept: v.r.Header["Accept-Encoding"], Now: v.now, Values: &v.values,
		Counts: e.cache.Counts(l.Entry) > 0,
	}
	if e.Settings.Precompress {
		answer.Cache = e.cache
	}
	answer.Write(v.w)
	return nil
}

// gives tells the feeds that a client is given their lists, which are parts of l.
func (v *visit) gives(l *catalog.List) {
	now := feed.Occasions()
	if v.outcome != outcome.Hit || l.Told.Load() == now {
		return
	}
	defer l.Told.Store(now)
	for i, server := range v.endpoint.servers {
		part := l.Parts[i]
		if part == nil || part.Lifetime == 0 || server.Carries.isPersonal() && part != server.pinned(v.at, v.kind) {
			continue
		}
		if f := server.Feeds.Of(part.Revision); f != nil {
			f.Asked(v.kind)
		}
	}
}

// take returns the list that the caller is given, which has to be released; nil if there is no
// memory for it, or the caller is refused.
func (v *visit) take(k revision.Kind) *catalog.List {
	own := v.endpoint.cache
	l := v.current(k)
	v.knocked = nil // it may be large, and counts nowhere
	if v.refused != nil || l == nil || own.Hold(l.Entry) {
		return l
	}
	return v.takeLater(k, own.Counts(l.Entry))
}

// takeLater is take once there are so many bytes of memory for the list.
func (v *visit) takeLater(k revision.Kind, room int64) (l *catalog.List) {
	held := v.endpoint.cache.HoldSoon(v.r.Context(), v.endpoint.firstPatience(), room, func() *cache.Entry {
		v.now = time.Now()
		if l = v.current(k); v.refused != nil || l == nil {
			return nil
		}
		return l.Entry
	})
	if !held {
		return nil
	}
	return l
}

// current returns the list of a kind as the caller is given it now, or nil: see [visit.join].
func (v *visit) current(k revision.Kind) *catalog.List {
	l := v.last(k)
	v.status = ""
	left, ok := v.isFresh(l)
	if !ok {
		return v.freshen(k)
	}
	v.left, v.outcome = left, outcome.Hit
	return l
}

// isFresh reports whether a list is what it would be if it were joined now of parts that
// are all fresh, and for how long yet.
func (v *visit) isFresh(l *catalog.List) (left time.Duration, ok bool) {
	if l == nil {
		return 0, false
	}
	left = forever
	for i, server := range v.endpoint.servers {
		part := v.listed(server, v.kind)
		switch {
		case part != l.Parts[i]:
			return 0, false
		case part == nil:
			counts, lacking := v.isLacking(server, v.kind)
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

// freshen joins a list of the servers' parts as they are now. It waits for those that have
// to be fetched, all at the same time, and takes their last ones if they do not come. A part
// that lacks a change of which any caller may know is left out then.
func (v *visit) freshen(k revision.Kind) *catalog.List {
	servers := v.endpoint.servers
	v.awaitServers(servers)
	fetches := make([]fetch, len(servers))
	parts := make([]*cache.Entry, len(servers))
	verdicts := make([]freshness.Verdict, len(servers))
	for i, server := range servers {
		parts[i] = v.listed(server, k)
		if verdicts[i] = server.verdict(parts[i], v.now); verdicts[i] != freshness.Fresh {
			fetches[i] = v.demand(server, k, parts[i])
		}
	}
	v.outcome, v.left = outcome.Hit, forever
	given := make([]bool, len(servers))
	for i, server := range servers {
		e, refused := v.await(server, fetches[i], parts[i], verdicts[i])
		switch {
		case v.isAnswer(e, parts[i]):
			parts[i], given[i], v.outcome = e, true, outcome.Miss
		case refused:
			parts[i] = nil // it is from a time when the server let the caller in
		}
	}
	stale, partial := false, false
	for i, server := range servers { // at the same moment, for however long one was waited for
		switch {
		case given[i]:
			server.has(v.at, k)
			v.left = min(v.left, parts[i].Left(v.now))
			continue
		case parts[i] == nil:
			counts, lacking := v.isLacking(server, k)
			partial, v.left = partial || !lacking, min(v.left, counts)
			continue
		case verdicts[i] == freshness.Withheld:
			v.withhold(server, k, parts[i])
			parts[i], partial = nil, true
			continue
		}
		stale = stale || verdicts[i].IsStale()
		server.has(v.at, k)
		v.left = min(v.left, server.Cache.Left(parts[i], v.now))
	}
	v.left = bounded(v.left)
	switch {
	case partial:
		v.status, v.left = statusPartial, min(v.left, 0)
	case stale:
		v.status = statusStale
	}
	if stale && v.outcome == outcome.Hit {
		v.outcome = outcome.Stale
	}
	return v.join(k, parts)
}

// withhold notes that the caller is given a list without a server's part. The server may have answered somebody
// in the same moment: then clients are told at once.
func (v *visit) withhold(s *Server, k revision.Kind, part *cache.Entry) {
	s.withheld[v.at.Era()][k].Store(true)
	if e := v.listed(s, k); s.Carries.isPersonal() && e != nil && e.Fetched.After(part.Fetched) {
		s.deliver(v.at, k)
	}
}

// await returns what a fetch brings in the time that there is, or nil, and whether the server has refused the caller;
// last is the part as it is, or nil, and verdict what may be done with it. Others may have waited for it that long
// already.
func (v *visit) await(s *Server, f fetch, last *cache.Entry, verdict freshness.Verdict) (e *cache.Entry, refused bool) {
	if f == nil {
		return nil, false
	}
	limit := freshness.StalePatience
	switch {
	case last == nil && s.Carries.isPersonal():
		limit = v.endpoint.firstPatience()
	case last != nil && verdict == freshness.Withheld:
		limit = freshness.Patience
	case last != nil && last.Lifetime == 0:
		limit = shortPatience
	}
	e, err := v.wait(f, limit)
	if f := v.turnedAway(s, err); f != nil {
		v.refused = f
	}
	return e, s.Carries.isPersonal() && statusOf(err) != nil
}

// isAnswer reports whether a list that was waited for may be given as the server's answer: not where
// another instance was waited for in vain, or has brought a list that is too old by now. last is the part
// as it was.
func (v *visit) isAnswer(e, last *cache.Entry) bool {
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
func (v *visit) awaitServers(servers []*Server) {
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
func (v *visit) AppendStatus(dst []byte) []byte {
	if v.outcome == outcome.Miss {
		dst = v.endpoint.status.AppendFetched(dst)
	} else {
		dst = v.endpoint.status.AppendHit(dst, v.left)
	}
	return append(dst, v.status...)
}
