package mcpcache

import (
	"maps"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// common is what the test knows of the upstream, through whatever instance.
// Everything in it happens under the world's lock.
type common struct {
	seq int

	// freshUntil is when the newest copy of each content expires.
	freshUntil map[content]time.Time
	// believed are the empty lists that may be published.
	believed map[believable]bool

	ended map[string]bool // sessions that their clients have ended
	// clients is what the lists of a session depend on.
	clients map[string]string
	// askers are the contexts of the clients' requests, by serial.
	askers map[string]string
}

func newCommon() *common {
	return &common{
		freshUntil: make(map[content]time.Time), believed: make(map[believable]bool),
		ended: make(map[string]bool), clients: make(map[string]string), askers: make(map[string]string),
	}
}

// next returns the number of something that happens.
func (c *common) next() int {
	c.seq++
	return c.seq
}

// truth is what the test knows of what has reached an instance and its clients.
type truth struct {
	*common
	door
	doubts

	// floor is the oldest version of each list that may still be called
	// fresh: a notice about it has passed. staleFloor is the same since the
	// last restart that forgot, told for one caller. toldBefore is what anybody may have been
	// told before the last restart.
	floor, staleFloor, toldBefore map[view]int
	// heard is the newest version of which the process has heard by itself.
	heard map[view]int

	told map[string]map[view]int
	// toldAt is when a caller was last told of a change.
	toldAt map[string]map[revision.Kind]time.Time
	// own are the exceptions of sessions that were told of a change of
	// their own.
	own map[sessionView]*own

	// toldElsewhere is what the clients of others were told, and toldElsewhereAt when.
	toldElsewhere   map[view]int
	toldElsewhereAt map[revision.Kind]time.Time
	// rumour is when a client may last have been told of a change, by anybody.
	rumour map[revision.Kind]time.Time

	// feedHas is what was delivered to the feed of a revision last.
	feedHas map[feedView]content
	// blips has the empty lists in a row that were delivered, after one that was
	// not empty.
	blips map[feedView]blips
	// shown is when the last list that was not empty was delivered to a feed.
	shown map[feedView]int
	// confirmed is when there was reason last to believe in an empty list.
	confirmed map[revision.Kind]stamp
}

// blips are empty lists in a row.
type blips struct {
	n         int
	first     time.Time // when the first one was delivered
	announced bool      // a change was, after the last list that was not empty
}

// believable is an empty list that was given for no reason.
type believable struct {
	kind  revision.Kind
	state state
}

// feedView is a list as a feed sees it.
type feedView struct {
	kind    revision.Kind
	rev, as string // as is "" for the feed itself, or the client as which it asks
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

func newTruth(c *common) *truth {
	return &truth{
		common: c, rumour: make(map[revision.Kind]time.Time), heard: make(map[view]int), toldElsewhere: make(map[view]int), toldElsewhereAt: make(map[revision.Kind]time.Time),
		floor: make(map[view]int), staleFloor: make(map[view]int), told: make(map[string]map[view]int), own: make(map[sessionView]*own),
		door: newDoor(), doubts: newDoubts(), toldAt: make(map[string]map[revision.Kind]time.Time),
		feedHas: make(map[feedView]content), blips: make(map[feedView]blips), shown: make(map[feedView]int), confirmed: make(map[revision.Kind]stamp),
	}
}

// rumours records that nobody knows what clients have been told of those kinds, or of all.
func (t *truth) rumours(kinds ...revision.Kind) {
	if len(kinds) == 0 {
		kinds = modelKinds
	}
	for _, k := range kinds {
		t.rumour[k] = time.Now()
	}
}

// restarts forgets what no process can know of the one before. What is fresh
// has to be so all the same. That changes were announced is known if it was saved,
// not to whom.
func (t *truth) restarts(saved bool) {
	t.startedAt = append(t.startedAt, t.next())
	clear(t.blips)
	if !saved {
		clear(t.staleFloor)
		t.forgetsRefusals()
	}
	t.toldBefore = maps.Clone(t.staleFloor)
	t.rumours()
	clear(t.told)
	clear(t.toldAt)
	clear(t.heard)
	clear(t.toldElsewhere)
	clear(t.toldElsewhereAt)
	clear(t.own)
	clear(t.misled)
	clear(t.changed)
	clear(t.called)
	clear(t.walked)
	clear(t.caught)
	clear(t.feedLost)
}

// confirms records that there is reason to believe in an empty list.
func (t *truth) confirms(k revision.Kind) {
	t.confirmed[k] = stamp{t.next(), time.Now()}
	for f, b := range t.blips {
		if f.kind == k {
			b.announced = true
			t.blips[f] = b
		}
	}
}

// confirmsAll is confirms for all that a notice is about.
func (t *truth) confirmsAll(n *notice) {
	for _, k := range n.kinds {
		t.confirms(k)
	}
}

// suddenFor is for how long a list has to be empty to be believed, if no change was
// announced.
const suddenFor = 15 * time.Second

// hears records that a notice has been passed to somebody. caller is "" if
// that was the feed. answering says that it was part of an answer.
func (t *truth) hears(n *notice, caller, session, rev string, answering bool) {
	t.raise(n.views)
	for v, version := range n.views {
		t.heard[v] = max(t.heard[v], version)
	}
	t.confirmsAll(n)
	if caller == "" {
		return
	}
	if t.told[caller] == nil {
		t.told[caller], t.toldAt[caller] = make(map[view]int), make(map[revision.Kind]time.Time)
	}
	for v, version := range n.views {
		t.told[caller][v] = max(t.told[caller][v], version)
	}
	for _, k := range n.kinds {
		t.toldAt[caller][k] = time.Now()
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

// hearsElsewhere records that a client of another instance was told, and this one before. It knows
// that clients were if it is settled.
func (t *truth) hearsElsewhere(n *notice, settled bool) {
	t.hearsOf(n.views, settled, n.kinds...)
}

// hearsOf records that any caller may know of those versions, if it is settled.
func (t *truth) hearsOf(versions map[view]int, settled bool, kinds ...revision.Kind) {
	t.raise(versions)
	if !settled {
		return
	}
	for v, version := range versions {
		t.toldElsewhere[v] = max(t.toldElsewhere[v], version)
	}
	for _, k := range kinds {
		t.toldElsewhereAt[k] = time.Now()
	}
}

// raise records that no older versions are fresh any more.
func (t *truth) raise(floor map[view]int) {
	for v, version := range floor {
		t.floor[v] = max(t.floor[v], version)
		t.staleFloor[v] = max(t.staleFloor[v], version)
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
	t.learnsList(a)
	v := sessionView{a.kind, a.session}
	switch o := t.own[v]; {
	case o == nil || a.seq < o.seq: // it was asked for before the notice
	case p.state.Session == "":
		delete(t.own, v) // it is an ordinary session again
	case !a.unknown && a.cursor == nil: // else it says nothing about what is cached
		o.differs = true
	}
}

func (t *truth) deliversToFeed(a *arrival, f feedView, p *page) {
	if n := len(t.startedAt); n > 0 && a.seq < t.startedAt[n-1] {
		return // the process that asked for it has ended
	}
	if p.offset == 0 {
		t.feedHas[f] = content{a.kind, p.state, p.hints.scope}
	}
	switch {
	case !p.state.Blip && p.end == p.state.Of && p.end > 0:
		t.shown[f] = t.next()
		// A feed may note a notice, and ask, in either order at that moment.
		c := t.confirmed[a.kind]
		t.blips[f] = blips{announced: a.seq < c.seq || a.arrived.Equal(c.at)}
	case p.state.Of == 0 && a.kind.ItemsKey() != "", p.state.Blip:
		b, shown := t.blips[f]
		if shown = shown && t.shown[f] < a.seq; shown {
			if b.n++; b.n == 1 {
				b.first = time.Now()
			}
			t.blips[f] = b
		}
		if !shown || b.n > 1 && (b.announced || time.Since(b.first) >= suddenFor) {
			t.believed[believable{a.kind, p.state}] = true // if it is one for no reason
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
	// refusedContext is when the context was refused, whatever it asked for,
	// refusedKind when the caller was refused this kind.
	refusedContext, refusedKind int
	// lossKnown says that the session is lost and a feed knows, reopened that it
	// has a new one.
	lossKnown, reopened bool
	toldAt              time.Time
	// misled, changed and called are what this caller has done itself.
	misled, changed, called map[view]int
	prospect                prospect
}

// before returns what is known as a request about k begins.
func (t *truth) before(k revision.Kind, ctx, session, rev string) knowledge {
	n := knowledge{
		at: time.Now(), floor: make(map[string]int), stale: make(map[string]int), told: make(map[string]int),
		own:     make(map[string]own),
		refused: t.refused(session, ctx, rev), endedAt: t.refusedSession[session], ended: t.ended[session],
	}
	if lost := t.lost[session]; lost > 0 && t.lossKnown > lost {
		n.lossKnown, n.reopened = true, t.reopened > t.lossKnown
	}
	caller := callerOf(session, ctx, rev)
	n.refusedContext, n.refusedKind = t.refusedContext[ctx], t.refusedKind[callerKind{caller, k}]
	n.toldAt, n.misled, n.changed, n.called = t.toldAt[caller][k], t.misled[caller], t.changed[caller], t.called[caller].before()
	if elsewhere := t.toldElsewhereAt[k]; elsewhere.After(n.toldAt) {
		n.toldAt = elsewhere
	}
	told := t.told[caller]
	for _, ctx := range modelContexts {
		n.floor[ctx] = t.floor[view{k, ctx}]
		n.stale[ctx] = t.staleFloor[view{k, ctx}]
		n.told[ctx] = max(told[view{k, ctx}], t.toldBefore[view{k, ctx}], t.toldElsewhere[view{k, ctx}])
	}
	for v, o := range maps.All(t.own) {
		if v.kind == k {
			n.own[v.session] = *o
		}
	}
	return n
}
