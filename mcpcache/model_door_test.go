package mcpcache

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// door is what the test knows of whom the upstream has let in.
type door struct {
	accepted       map[string]stamp // by caller
	refusedCaller  map[string]int
	refusedContext map[string]int
	refusedSession map[string]int
	ended          map[string]bool // sessions that their clients have ended

	// lost are the sessions that the upstream has forgotten. lossKnown is when a
	// feed last had to know of such a loss, reopened when one last had a new
	// session after that.
	lost                map[string]int
	lossKnown, reopened int
	// feedLost are the revisions whose feed has lost its session and has none yet.
	feedLost map[string]bool
	// clients is what the lists of a session depend on.
	clients map[string]string
	// askers are the contexts of the clients' requests, by serial.
	askers map[string]string
}

func newDoor() door {
	return door{
		accepted: make(map[string]stamp), refusedCaller: make(map[string]int), refusedContext: make(map[string]int),
		refusedSession: make(map[string]int), ended: make(map[string]bool), lost: make(map[string]int),
		feedLost: make(map[string]bool), clients: make(map[string]string), askers: make(map[string]string),
	}
}

// answers records that a result reaches who asked: that to a list of its own
// lets a caller in, as one to initialize does a session. Another renews what a
// session has. What the feed is given lets nobody in.
func (t *truth) answers(a *arrival) {
	if a.feed() {
		return
	}
	caller := a.caller()
	present, known := t.accepted[caller]
	switch {
	case a.list && a.kind != revision.Reads, a.method == "initialize":
	case a.session != "" && known && present.seq > t.refused(a.session, a.ctx, a.rev):
	default:
		return
	}
	now := stamp{max(a.seq, present.seq), a.at}
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
func (t *truth) leaves(a *arrival) { t.refusedSession[a.session] = a.seq }

// refuses records that a refusal has reached a client: of its credentials, of
// its session, or of a list. That somebody without credentials may not do
// something else says nothing about lists.
func (t *truth) refuses(x *call, status int) {
	seq, ctx := t.next(), x.c.ctx
	if x.session != "" {
		t.refusedSession[x.session] = seq
	}
	if status == http.StatusNotFound {
		return
	}
	if ctx != "-" {
		t.refusedContext[ctx] = seq
	}
	if x.list && !x.unknown && x.kind != revision.Reads {
		t.refusedCaller[callerOf(x.session, ctx, x.c.rev.String())] = seq
	}
}

// errs records that the answer to a whole list was an error: that is a refusal.
func (w *world) errs(x *call) {
	if !x.list || x.kind == revision.Reads || x.cursor || x.unknown ||
		x.status != http.StatusOK && x.status != http.StatusBadRequest {
		return
	}
	var m struct{ Error json.RawMessage }
	if json.Unmarshal(x.message(), &m) == nil && m.Error != nil {
		w.truth.refusedCaller[callerOf(x.session, x.c.ctx, x.c.rev.String())] = w.truth.next()
	}
}

// loses records that the upstream has forgotten a session.
func (t *truth) loses(s *modelSession) {
	t.lost[s.id] = t.next()
	if s.feed {
		t.feedLost[s.rev] = true
	}
}

// settleLoss is called once everything that follows from a loss has happened.
func (w *world) settleLoss() {
	t := w.truth
	if w.noticedLoss {
		t.lossKnown = t.next()
	}
	for rev := range w.feedReopened {
		if t.feedLost[rev] {
			t.reopened = t.next()
		}
		delete(t.feedLost, rev)
	}
	w.noticedLoss = false
	clear(w.feedReopened)
}

// answered is called when the last piece of an answer is about to leave.
func (w *world) answered(p *reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := p.a
	if p.isResult {
		w.truth.answers(a)
	}
	switch {
	case a.feed() && a.method == "initialize" && p.isResult:
		w.feedReopened[a.rev] = true
	case a.feed() && p.status == http.StatusNotFound && w.truth.lost[a.session] > 0:
		w.noticedLoss = true
	case !a.feed() && p.changed && p.isResult:
		w.truth.changedBy(a, p.changedKind, w)
	}
}

// checkDoor is promise 4.
func (w *world) checkDoor(x *call, from answerOrigin, _ *sent, _ *result) error {
	if x.before.ended {
		return fmt.Errorf("session %s has ended", x.session)
	}
	// While the upstream does not answer, nobody can know.
	hanging := w.handler.backend.Hanging(x.before.at)
	if x.before.lossKnown && (from != fromCacheStale && !hanging || x.before.reopened) {
		return fmt.Errorf("the upstream has lost session %s", x.session)
	}
	stamp, accepted := w.truth.accepted[callerOf(x.session, x.c.ctx, x.c.rev.String())]
	if w.cfg.admitAll {
		if x.c.rev.Era() == revision.Legacy && (!accepted || stamp.seq <= x.before.endedAt) {
			return fmt.Errorf("the upstream has not let session %q in", x.session)
		}
		return nil
	}
	switch {
	case !accepted:
		return fmt.Errorf("the upstream has never let this caller in")
	case stamp.seq <= x.before.refused:
		return fmt.Errorf("the upstream has refused this caller")
	case !x.before.at.Before(stamp.at.Add(w.cfg.admitFor)):
		return fmt.Errorf("the upstream let this caller in %s ago", x.before.at.Sub(stamp.at))
	case x.c.ctx == "C" && !x.before.at.Before(tokenEnd):
		return fmt.Errorf("the token has expired")
	}
	return nil
}

// checkAsker is promise 3: what callers share was asked for by the feed.
func (w *world) checkAsker(x *call, _ answerOrigin, _ *sent, r *result) error {
	if r.asker == "" {
		return nil
	}
	if ctx := w.truth.askers[r.asker]; ctx == "-" || ctx != x.c.ctx {
		return fmt.Errorf("what #%s of %s asked for was given to %s", r.asker, ctx, x.c.ctx)
	}
	return nil
}

// stamp is a decision of the upstream.
type stamp struct {
	seq int
	at  time.Time
}
