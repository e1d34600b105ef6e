package mcpcache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// These are the calls that make a list doubtful for the caller itself, and for
// nobody else: one that the upstream has refused, and one that has changed what
// there is, on an upstream that does not say so.

// doubts is what single callers may expect of a list because of what they did.
type doubts struct {
	// misled has the versions that there were when a call of the caller's was
	// refused. They stand until the upstream has answered it a list.
	misled map[string]map[view]int
	// changed has the versions that a call of the caller's has made. They stand
	// for its next list.
	changed map[string]map[view]int
	// called is what there was when a call of the caller's last changed a list. It
	// stands for as long as the notice of that may come late.
	called map[string]changedLists
	// walked is what a feed was given last as a whole, and caught are the lists
	// that have changed without a word between two such walks.
	walked map[feedView]walked
	caught map[feedView]bool
}

// changedLists are the versions that a call has made, and when its result came.
type changedLists struct {
	at       time.Time
	versions map[view]int
}

// promisedLag is how late a notice may come for the caller whose call has changed
// a list to be given the new one at once.
const promisedLag = 250 * time.Millisecond

// walked is a whole list that a feed was given.
type walked struct {
	session string
	state   state
}

func newDoubts() doubts {
	return doubts{
		misled: make(map[string]map[view]int), changed: make(map[string]map[view]int),
		called: make(map[string]changedLists), walked: make(map[feedView]walked), caught: make(map[feedView]bool),
	}
}

// known reports whether something can be noted of a caller: whoever has neither
// credentials nor a session cannot be told from others.
func known(session, ctx string) bool { return session != "" || ctx != "-" }

// misleads records that the upstream has refused what a caller took from a list.
func (w *world) misleads(x *call) {
	if x.params["name"] == nil || x.status != http.StatusOK && x.status != http.StatusBadRequest || !known(x.session, x.ctx) ||
		!bytes.Contains(x.message(), []byte(`"code":-32602`)) || !bytes.Contains(x.message(), []byte(`"2.0"`)) ||
		!json.Valid(x.message()) { // no client reads an answer with something behind it
		return
	}
	x.at.truth.misled[callerOf(x.session, x.ctx, x.c.rev.String())] = w.versionsOf(revision.Tools)
}

func (w *world) versionsOf(k revision.Kind) map[view]int {
	versions := maps.Clone(w.up.versions)
	maps.DeleteFunc(versions, func(v view, _ int) bool { return v.kind != k })
	return versions
}

// learnsList records that the upstream has answered a caller a list.
func (t *truth) learnsList(a *arrival) {
	if a.list && a.kind == revision.Tools && a.cursor == nil && !a.unknown {
		delete(t.misled, a.caller())
	}
}

// changedBy records that the result of a call that has changed lists reaches the
// caller. It counts for a moment, and for longer if the upstream has been caught
// at saying nothing.
func (t *truth) changedBy(a *arrival, k revision.Kind, w *world) {
	if !known(a.session, a.ctx) {
		return
	}
	versions := w.versionsOf(k)
	t.called[a.caller()] = changedLists{time.Now(), versions}
	f := a.at.server.backend.Feeds.Of(revision.Parse(a.rev))
	if !t.caught[feedView{k, a.rev, ""}] || w.troubled() || f == nil || f.Status().Failure != nil {
		return
	}
	// That a list has become empty has to be confirmed.
	versions = maps.Clone(versions)
	maps.DeleteFunc(versions, func(v view, _ int) bool { return w.up.counts[v] == 0 })
	t.changed[a.caller()] = versions
}

// before returns the versions that count when a list is asked for now.
func (l changedLists) before() map[view]int {
	if time.Since(l.at) >= promisedLag {
		return nil
	}
	return l.versions
}

// troubled reports whether the upstream does not work as it should.
func (w *world) troubled() bool {
	lost := 0
	for _, at := range w.instances {
		lost += len(at.truth.feedLost)
	}
	return len(w.up.faults)+len(w.up.holds)+len(w.up.refused)+lost > 0
}

// walks records that the last page of a list was delivered to the feed. Of several instances,
// one may have what another was given.
func (w *world) walks(a *arrival, f feedView, p *page) {
	if w.cfg.fleet || p.state.Blip || p.end != p.state.Of || f.as != "" {
		return
	}
	t := a.at.truth
	if p.state.Of == 0 { // that has to be confirmed
		delete(t.walked, f)
		return
	}
	before, ok := t.walked[f]
	t.walked[f] = walked{a.session, p.state}
	if ok && before.session == a.session && before.state.Version != p.state.Version &&
		w.cfg.silent && !w.cfg.listChanged && a.kind != revision.Discover {
		t.caught[f] = true
	}
}

// stepMistake has one client err, and another list.
func (w *world) stepMistake(r *rand.Rand) {
	errs, other := w.anyone(r), w.anyone(r)
	q := request{http: http.MethodPost, method: revision.Tools.Method(), kind: revision.Tools, list: true, params: map[string]any{}}
	w.mu.Lock()
	before := w.expect(other, q)
	same := callerOf(errs.session, errs.ctx, errs.rev.String()) == callerOf(other.session, other.ctx, other.rev.String()) &&
		known(errs.session, errs.ctx)
	w.mu.Unlock()
	for range 1 + r.IntN(3) {
		w.send(errs, request{http: http.MethodPost, method: "tools/call", params: map[string]any{"name": "none:"}})
	}
	w.settle()
	w.mu.Lock()
	// The refresh that this set off may have found other items or hints, or that
	// the session of the feed is lost.
	after := w.expect(other, q)
	q.mustHit = before.fresh && !same && len(other.at.truth.feedLost) == 0 && w.up.refused[errs.ctx] == 0 &&
		after.items == before.items && after.snapshot == before.snapshot && after.lifetime == before.lifetime
	w.mu.Unlock()
	w.send(other, q)
	if r.IntN(2) == 0 {
		w.settle()
		w.send(errs, w.question(r, errs, revision.Tools))
	}
}

// expect is what a client could count on if it asked now.
func (w *world) expect(c *client, q request) prospect {
	x := w.newCall(c, q, "0")
	x.before = x.at.truth.before(q.kind, x.ctx, x.session, c.rev.String())
	return w.prospectOf(x, x.at.server)
}

// stepQuietChange has a client change lists on an upstream that does not say so, and list them, again
// and again: the feed finds out that there are no notices, and looks after calls from then on.
func (w *world) stepQuietChange(r *rand.Rand) {
	k := pick(r, revision.Tools, revision.Prompts)
	c := w.anyoneWho(r, func(c *client) bool { return known(c.session, c.ctx) })
	if c == nil {
		return
	}
	for range 1 + r.IntN(4) {
		if r.IntN(2) == 0 {
			w.send(c, w.question(r, c, k))
			w.settle()
		}
		w.send(c, request{
			http: http.MethodPost, method: "tools/call", params: map[string]any{"name": "change:" + k.Method()},
		})
		w.settle()
		if r.IntN(2) == 0 {
			time.Sleep(pick(r, promisedLag, 500*time.Millisecond, 2*time.Second))
		}
		w.send(c, w.question(r, c, k))
		w.settle()
		if r.IntN(2) == 0 {
			time.Sleep(pick(r, time.Second, 10*time.Second))
		}
	}
}

// checkOwn is what a caller may expect of a list because of what it did itself.
func (w *world) checkOwn(x *call, from answerOrigin, _ *sent, r *result) error {
	version, ctx, hanging := r.state.Version, r.state.Ctx, x.at.server.backend.Hanging(x.before.at)
	switch {
	case from == fromCacheStale:
	case version < x.before.misled[view{x.kind, ctx}] && x.at.truth.misled[callerOf(x.session, x.ctx, x.c.rev.String())] != nil:
		return fmt.Errorf("version %d of %s misled this caller, and there was version %d", version, ctx, x.before.misled[view{x.kind, ctx}])
	case version < x.before.changed[view{x.kind, ctx}] && !w.troubled() && !hanging && time.Since(x.before.at) < promisedPatience:
		return fmt.Errorf("version %d of %s lacks what this caller's call has changed in version %d", version, ctx, x.before.changed[view{x.kind, ctx}])
	case version < x.before.called[view{x.kind, ctx}] && !hanging:
		return fmt.Errorf("version %d of %s is from before this caller's call, which has just made version %d", version, ctx, x.before.called[view{x.kind, ctx}])
	}
	return nil
}
