package mcpcache

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// door is what the test knows of whom the upstream has let in.
type door struct {
	accepted map[string]stamp // by caller
	// discovered are those to server/discover, which lets in to that alone.
	discovered map[string]stamp
	// answeredKind is when a caller was last answered a list of a kind, refusedKind
	// when it was refused one; startedAt are when the product was started.
	answeredKind, refusedKind map[callerKind]int
	startedAt                 []int

	refusedCaller  map[string]int
	refusedContext map[string]int
	refusedSession map[string]int

	// lost are the sessions that the upstream has forgotten. lossKnown is when a
	// feed last had to know of such a loss, reopened when one last had a new
	// session after that.
	lost                map[string]int
	lossKnown, reopened int
	// feedLost are the revisions whose feed has lost a session and has opened none since, feedsOwn
	// the lost sessions that a feed had as itself.
	feedLost, feedsOwn map[string]bool
}

// callerKind is a caller, and what it asks for.
type callerKind struct {
	caller string
	kind   revision.Kind
}

func newDoor() door {
	return door{
		accepted: make(map[string]stamp), discovered: make(map[string]stamp),
		answeredKind: make(map[callerKind]int), refusedKind: make(map[callerKind]int),
		refusedCaller: make(map[string]int), refusedContext: make(map[string]int),
		refusedSession: make(map[string]int), lost: make(map[string]int),
		feedLost: make(map[string]bool), feedsOwn: make(map[string]bool),
	}
}

// answers records that a result reaches who asked: that to a list of its own
// lets a caller in, as one to initialize does a session. Another renews what a
// session has. What the feed is given lets nobody in.
func (t *truth) answers(a *arrival) {
	caller := a.caller()
	switch {
	case a.feed() && a.at.w.cfg.personal: // a toolkit may ask as a caller, also as one without credentials
		caller = callerOf("", a.ctx, a.rev)
	case a.feed():
		return
	}
	if a.list {
		k := callerKind{caller, a.kind}
		t.answeredKind[k] = max(t.answeredKind[k], a.seq)
	}
	if a.kind == revision.Discover && a.list {
		t.discovered[caller] = stamp{a.seq, a.arrived}
		return
	}
	if a.list && a.kind != revision.Reads || a.method == "initialize" || t.renews(a) {
		t.accepts(a, caller)
	}
}

// renews reports whether a result renews what a session has. Its beginning does so too.
func (t *truth) renews(a *arrival) bool {
	present, known := t.accepted[a.caller()]
	return !a.feed() && a.session != "" && known && present.seq > t.refused(a.session, a.ctx, a.rev)
}

func (t *truth) accepts(a *arrival, caller string) {
	present := t.accepted[caller]
	now := stamp{max(a.seq, present.seq), a.arrived}
	if present.at.After(now.at) {
		now.at = present.at
	}
	t.accepted[caller] = now
}

// refused is when a caller was last refused.
func (t *truth) refused(session, ctx, rev string) int {
	return max(t.refusedContext[ctx], t.refusedSession[session], t.refusedCaller[callerOf(session, ctx, rev)])
}

// leaves records that a client has asked for the end of its session.
func (t *truth) leaves(a *arrival) { t.refusesSessions(a.seq, a.session, a.also) }

// refusesSessions records that sessions, if there are any, have to be let in anew.
func (t *truth) refusesSessions(seq int, sessions ...string) {
	for _, id := range sessions {
		if id != "" {
			t.refusedSession[id] = max(t.refusedSession[id], seq)
		}
	}
}

// refuses records that a refusal has reached a client: of its credentials, of
// its session, or of a list. That somebody without credentials may not do
// something else says nothing about lists.
func (t *truth) refuses(x *call, status int) {
	seq, ctx := x.refusedAt(), x.ctx
	t.refusesSessions(seq, x.session, x.also)
	if status == http.StatusNotFound {
		return
	}
	if ctx != "-" {
		t.refusedContext[ctx] = max(t.refusedContext[ctx], seq)
	}
	if x.list && !x.unknown {
		t.refusesKind(x, seq)
	}
}

// refusesKind records that a caller was refused what it asked for: that bars it
// from all lists, if that was one, and from that kind until it is answered.
func (t *truth) refusesKind(x *call, seq int) {
	caller := callerOf(x.session, x.ctx, x.c.rev.String())
	t.refusedKind[callerKind{caller, x.kind}] = max(t.refusedKind[callerKind{caller, x.kind}], seq)
	if x.kind != revision.Discover && x.kind != revision.Reads {
		t.refusedCaller[caller] = max(t.refusedCaller[caller], seq)
	}
}

// forgetsRefusals is called when a process ends that could not save everything. That it had let in callers
// without credentials may have been saved before the upstream refused them something.
func (t *truth) forgetsRefusals() {
	for _, r := range revision.All() {
		caller := callerOf("", "-", r.String())
		delete(t.refusedCaller, caller)
		for _, k := range modelKinds {
			delete(t.refusedKind, callerKind{caller, k})
		}
	}
}

// errs records that the answer to a whole list was an error: that is a refusal.
// One that says so puts the session in doubt, whatever was asked for.
func (w *world) errs(x *call) {
	var failure struct{ Error struct{ Code int } }
	if x.status == http.StatusOK && json.Unmarshal(x.message(), &failure) == nil && failure.Error.Code == unknownSession {
		x.at.truth.refusesSessions(w.known.next(), x.session, x.also)
	}
	if !x.list || x.kind == revision.Reads || x.cursor || x.unknown ||
		x.status != http.StatusOK && x.status != http.StatusBadRequest {
		return
	}
	var m struct{ Error *struct{ Code int } }
	if json.Unmarshal(x.message(), &m) != nil || m.Error == nil {
		return
	}
	switch m.Error.Code {
	case -32601, -32602, -32603: // says nothing of other lists
		x.at.truth.refusedKind[callerKind{callerOf(x.session, x.ctx, x.c.rev.String()), x.kind}] = w.known.next()
	default:
		x.at.truth.refusesKind(x, w.known.next())
	}
}

// loses records that the upstream has forgotten a session.
func (t *truth) loses(s *modelSession) {
	t.lost[s.id] = t.next()
	if s.feed {
		t.feedLost[s.rev], t.feedsOwn[s.id] = true, s.as == ""
	}
}

// settleLoss is called once everything that follows from a loss has happened.
func (at *modelInstance) settleLoss() {
	t := at.truth
	if at.noticedLoss {
		t.lossKnown = t.next()
	}
	for rev, own := range at.feedReopened {
		if t.feedLost[rev] && own {
			t.reopened = t.next()
		}
		delete(t.feedLost, rev)
	}
	at.noticedLoss = false
	clear(at.feedReopened)
}

// begins is called when the first piece of an answer has left, and the last one waits.
func (w *world) begins(p *reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.isResult && !p.a.probe && p.a.at.truth.renews(p.a) {
		p.a.at.truth.accepts(p.a, p.a.caller())
	}
}

// answered is called when the last piece of an answer is about to leave.
func (w *world) answered(p *reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := p.a
	if a.probe {
		return
	}
	if p.isResult {
		a.at.truth.answers(a)
	}
	switch {
	case a.feed() && a.method == "initialize" && p.isResult:
		s := w.up.sessions[p.session]
		a.at.feedReopened[a.rev] = a.at.feedReopened[a.rev] || s != nil && s.as == ""
	case a.feed() && p.status == http.StatusNotFound && a.at.truth.feedsOwn[a.session]:
		a.at.noticedLoss = true
	case !a.feed() && !a.several() && p.changed && p.isResult:
		a.at.truth.changedBy(a, p.changedKind, w)
	}
}

// checkDoor is promise 4.
func (w *world) checkDoor(x *call, from answerOrigin, _ *sent, _ *result) error {
	if x.before.ended {
		return fmt.Errorf("session %s has ended", x.session)
	}
	// While the upstream does not answer, nobody can know.
	hanging := x.at.server.backend.Hanging(x.before.at)
	if x.before.lossKnown && (from != fromCacheStale && !hanging || x.before.reopened) {
		return fmt.Errorf("the upstream has lost session %s", x.session)
	}
	caller := callerOf(x.session, x.ctx, x.c.rev.String())
	stamp, accepted := x.at.truth.accepted[caller]
	if w.cfg.admitAll {
		if x.c.rev.Era() == revision.Legacy && (!accepted || stamp.seq <= x.before.endedAt) {
			return fmt.Errorf("the upstream has not let session %q in", x.session)
		}
		return nil
	}
	if x.kind == revision.Discover {
		if err := w.checkLetIn(x, x.at.truth.discovered[caller], x.before.refusedContext); err == nil {
			return w.checkRefusedKind(x, x.at.truth.discovered[caller])
		}
	}
	if err := w.checkLetIn(x, stamp, x.before.refused); err != nil {
		return err
	}
	return w.checkRefusedKind(x, stamp)
}

// checkRefusedKind makes sure that a caller who was refused what it asks for has
// been answered it since. By a restart that is forgotten, but who has been let in
// before that is not let in to it by any later one.
func (w *world) checkRefusedKind(x *call, let stamp) error {
	refused := x.before.refusedKind
	forgotten := slices.ContainsFunc(x.at.truth.startedAt, func(restart int) bool { return refused < restart && restart < let.seq })
	caller := callerOf(x.session, x.ctx, x.c.rev.String())
	if refused > 0 && !forgotten && x.at.truth.answeredKind[callerKind{caller, x.kind}] <= refused {
		return fmt.Errorf("the upstream has refused this caller the kind %s", x.kind)
	}
	return nil
}

// checkLetIn makes sure that a caller was let in, lately, and not refused since.
func (w *world) checkLetIn(x *call, stamp stamp, refused int) error {
	switch {
	case stamp.seq == 0:
		return fmt.Errorf("the upstream has never let this caller in")
	case stamp.seq <= refused:
		return fmt.Errorf("the upstream has refused this caller")
	case !x.before.at.Before(stamp.at.Add(w.cfg.admitFor)):
		return fmt.Errorf("the upstream let this caller in %s ago", x.before.at.Sub(stamp.at))
	case x.ctx == "C" && !x.before.at.Before(tokenEnd):
		return fmt.Errorf("the token has expired")
	}
	return nil
}

// checkAsker is promise 3: what callers share was asked for by the feed.
func (w *world) checkAsker(x *call, _ answerOrigin, _ *sent, r *result) error {
	if r.asker == "" {
		return nil
	}
	if ctx := w.known.askers[r.asker]; ctx == "-" || ctx != x.ctx {
		return fmt.Errorf("what #%s of %s asked for was given to %s", r.asker, ctx, x.ctx)
	}
	return nil
}

// stamp is a decision of the upstream.
type stamp struct {
	seq int
	at  time.Time
}
