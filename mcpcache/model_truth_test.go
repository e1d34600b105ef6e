package mcpcache

import (
	"maps"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// truth is what the test knows of the upstream and of what has reached whom.
// Everything in it happens under the world's lock.
type truth struct {
	seq int

	// floor is the oldest version of each list that may still be called
	// fresh: a notice about it has passed. staleFloor is the same since the
	// last restart, told for one caller.
	floor, staleFloor map[view]int

	told map[string]map[view]int
	// own are the exceptions of sessions that were told of a change of
	// their own.
	own map[sessionView]*own

	accepted       map[string]stamp
	refusedContext map[string]int
	refusedSession map[string]int
	ended          map[string]bool

	// freshUntil is when the newest copy of each content expires.
	freshUntil map[content]time.Time
	// feedHas is what was delivered to the feed of a revision last.
	feedHas map[feedView]content
	// blips counts the empty lists in a row that were delivered for no
	// reason, after one that was not empty.
	blips map[feedView]int
	// shown is when the last list that was not empty was delivered to a feed.
	shown map[feedView]int
	// believed are the empty lists that may be published.
	believed map[believable]bool
	// confirmed is when there was reason last to believe in an empty list.
	confirmed map[revision.Kind]stamp
}

// believable is an empty list that was given for no reason.
type believable struct {
	kind  revision.Kind
	state state
}

// stamp is a decision of the upstream.
type stamp struct {
	seq int
	at  time.Time
}

// feedView is a list as a feed sees it.
type feedView struct {
	kind      revision.Kind
	rev, caps string
}

// own is what a session has been told about a list of its own.
type own struct {
	seq   int
	extra int // the version of its own items at the notice
	// feedHad is what the feed had at the notice.
	feedHad content
	// differs says that the session has been shown items of its own since,
	// or was told in an answer to a request of its own.
	differs bool
}

func newTruth() *truth {
	return &truth{
		floor: make(map[view]int), staleFloor: make(map[view]int), told: make(map[string]map[view]int), own: make(map[sessionView]*own),
		accepted: make(map[string]stamp), refusedContext: make(map[string]int), refusedSession: make(map[string]int),
		ended: make(map[string]bool), freshUntil: make(map[content]time.Time), feedHas: make(map[feedView]content),
		blips: make(map[feedView]int), shown: make(map[feedView]int), believed: make(map[believable]bool), confirmed: make(map[revision.Kind]stamp),
	}
}

func (t *truth) next() int {
	t.seq++
	return t.seq
}

// accepts records that the upstream lets a caller in.
func (t *truth) accepts(a *arrival) { t.accepted[a.caller()] = stamp{a.seq, time.Now()} }

// leaves records that a client has asked for the end of its session.
func (t *truth) leaves(a *arrival) { t.refusedSession[a.session] = a.seq }

// restarts forgets what no process can know of the one before. What is fresh
// has to be so all the same.
func (t *truth) restarts() {
	clear(t.blips)
	clear(t.staleFloor)
	clear(t.told)
	clear(t.own)
}

// refuses records that a refusal has reached a client.
func (t *truth) refuses(ctx, session string, seq int, session404 bool) {
	if session != "" {
		t.refusedSession[session] = max(t.refusedSession[session], seq)
	}
	if !session404 {
		t.refusedContext[ctx] = max(t.refusedContext[ctx], seq)
	}
}

// confirms records that there is reason to believe in an empty list.
func (t *truth) confirms(k revision.Kind) {
	t.confirmed[k] = stamp{t.next(), time.Now()}
	for f := range t.blips {
		if f.kind == k {
			t.blips[f] = enoughBlips
		}
	}
}

// enoughBlips is how often an empty list has to be given to be believed.
const enoughBlips = 2

// hears records that a notice has been passed to somebody. caller is "" if
// that was the feed. answering says that it was part of an answer.
func (t *truth) hears(n *notice, caller, session, rev string, answering bool) {
	for v, version := range n.views {
		t.floor[v] = max(t.floor[v], version)
		t.staleFloor[v] = max(t.staleFloor[v], version)
	}
	for _, k := range n.kinds {
		t.confirms(k)
	}
	if caller == "" {
		return
	}
	if t.told[caller] == nil {
		t.told[caller] = make(map[view]int)
	}
	for v, version := range n.views {
		t.told[caller][v] = max(t.told[caller][v], version)
	}
	for _, k := range n.kinds {
		if session == "" {
			continue
		}
		v := sessionView{k, session}
		before := t.own[v]
		t.own[v] = &own{
			seq: t.next(), extra: n.session[v], feedHad: t.feedHas[feedView{k, rev, ""}],
			differs: answering || before != nil && before.differs,
		}
	}
}

// delivers records that a page is about to reach whoever asked for it.
func (t *truth) delivers(a *arrival, p *page, life time.Duration) {
	until := time.Now().Add(life)
	// To take a list for a private one is always right: its pages may turn out
	// to be of several scopes.
	for _, scope := range append(p.scopes(), "private") {
		c := content{a.kind, p.state, scope}
		if t.freshUntil[c].Before(until) {
			t.freshUntil[c] = until
		}
	}
	if a.feed() {
		t.deliversToFeed(a, p)
		return
	}
	v := sessionView{a.kind, a.session}
	switch o := t.own[v]; {
	case o == nil || a.seq < o.seq: // it was asked for before the notice
	case p.state.Session == "":
		delete(t.own, v) // it is an ordinary session again
	case !a.unknown && a.cursor == nil: // else it says nothing about what is cached
		o.differs = true
	}
}

func (t *truth) deliversToFeed(a *arrival, p *page) {
	f := feedView{a.kind, a.rev, a.caps}
	if p.offset == 0 {
		t.feedHas[f] = content{a.kind, p.state, p.hints.scope}
	}
	switch {
	case !p.state.Blip && p.end == p.state.Of && p.end > 0:
		t.shown[f] = t.next()
		// A feed may note a notice, and ask, in either order at that moment.
		if c := t.confirmed[a.kind]; a.seq < c.seq || a.at.Equal(c.at) {
			t.blips[f] = enoughBlips
		} else {
			t.blips[f] = 0
		}
	case p.state.Blip:
		n, shown := t.blips[f]
		if shown = shown && t.shown[f] < a.seq; shown {
			t.blips[f] = n + 1
		}
		if !shown || n+1 >= enoughBlips {
			t.believed[believable{a.kind, p.state}] = true
		}
	}
}

// knowledge is what has happened before a request begins.
type knowledge struct {
	at    time.Time
	floor map[string]int // by context
	stale map[string]int
	told  map[string]int
	own   map[string]own // by session
	// refused is when the context or the session was, ended when the session.
	refused, endedAt int
	ended            bool
}

// before returns what is known as a request about k begins.
func (t *truth) before(k revision.Kind, ctx, session, rev string) knowledge {
	n := knowledge{
		at: time.Now(), floor: make(map[string]int), stale: make(map[string]int), told: make(map[string]int),
		own:     make(map[string]own),
		refused: max(t.refusedContext[ctx], t.refusedSession[session]), endedAt: t.refusedSession[session],
		ended: t.ended[session],
	}
	told := t.told[callerOf(session, ctx, rev)]
	for _, ctx := range modelContexts {
		n.floor[ctx] = t.floor[view{k, ctx}]
		n.stale[ctx] = t.staleFloor[view{k, ctx}]
		n.told[ctx] = told[view{k, ctx}]
	}
	for v, o := range maps.All(t.own) {
		if v.kind == k {
			n.own[v.session] = *o
		}
	}
	return n
}
