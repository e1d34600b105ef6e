package mcpcache

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// These steps are the upstream's troubles, and time.

func (w *world) stepFail(r *rand.Rand) {
	f := &fault{
		mode: pick(r, modelFaults...), feed: r.IntN(3) > 0, clients: r.IntN(3) > 0, lists: r.IntN(2) == 0,
		repaired: make(chan struct{}),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up.faults = append(w.up.faults, f)
	w.stir()
	w.note("upstream: fails: %s (feed: %t, clients: %t, lists only: %t)", f.mode, f.feed, f.clients, f.lists)
}

func (w *world) stepRepair(*rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.up.faults) > 0 {
		w.note("upstream: works again")
		w.stir()
	}
	w.up.repair()
}

func (w *world) stepHold(r *rand.Rand) {
	h := &hold{
		feed: r.IntN(2) == 0, clients: r.IntN(2) == 0, left: 1 + r.IntN(3), inside: r.IntN(2) == 0,
		released: make(chan struct{}),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up.holds = append(w.up.holds, h)
	w.note("upstream: holds %d lists back (feed: %t, clients: %t)", h.left, h.feed, h.clients)
}

func (w *world) stepRelease(*rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.up.holds) > 0 {
		w.note("upstream: holds nothing back any more")
	}
	w.up.release()
}

// stepOvertake has a change and its notice overtake a list that is on its way.
func (w *world) stepOvertake(r *rand.Rand) {
	k := pick(r, revision.Tools, revision.Prompts, revision.Resources)
	c := w.anyone(r)
	w.stepHold(r)
	if r.IntN(2) == 0 { // the feed's, too
		w.mu.Lock()
		w.announce(r, k)
		w.mu.Unlock()
		w.settle()
		time.Sleep(2 * time.Millisecond) // the feed waits for a moment before it asks
	}
	w.send(c, w.question(r, c, k))
	w.settle()
	w.change(r, k)
	w.settle()
	if r.IntN(2) == 0 {
		w.send(c, w.question(r, c, k))
		w.settle()
	}
	w.stepRelease(r)
	w.settle()
	c = pick(r, c, w.anyone(r))
	w.send(c, w.question(r, c, k))
}

func (w *world) stepSleep(r *rand.Rand) {
	d := pick(r, 300*time.Millisecond, time.Second, time.Second, 3*time.Second, 10*time.Second, 20*time.Second,
		45*time.Second, 2*time.Minute, 6*time.Minute, 20*time.Minute)
	if r.IntN(25) == 0 {
		d = 3 * time.Hour
	}
	if w.cfg.fleet || w.cfg.several { // which have much to do all the time
		d = min(d, 6*time.Minute)
	}
	w.mu.Lock()
	w.note("time passes: %s", d)
	w.mu.Unlock()
	time.Sleep(d)
}

// stepForget is the upstream forgetting a session, or all. It may say so first to
// what is no list.
func (w *world) stepForget(r *rand.Rand) {
	c := w.anyone(r)
	w.mu.Lock()
	for id := range w.up.sessions {
		if c.session == "" || c.session == id {
			w.up.loseSession(id)
		}
	}
	w.note("upstream: forgets session %q (all if empty)", c.session)
	w.mu.Unlock()
	if r.IntN(2) == 0 {
		c = w.anyoneWho(r, func(c *client) bool { return c.session != "" })
	}
	if c == nil || c.session == "" {
		return
	}
	w.send(c, request{http: http.MethodPost, method: "ping"})
	w.settle()
	w.send(c, w.question(r, c, revision.Tools))
}

// stepUpstreamRestart is the upstream starting anew, at once or after an outage.
func (w *world) stepUpstreamRestart(r *rand.Rand) {
	outage := pick(r, 0, 0, 300*time.Millisecond, 10*time.Second, 2*time.Minute)
	w.mu.Lock()
	w.note("upstream: starts anew after %s", outage)
	w.up.loseSessions()
	if outage > 0 {
		w.up.faults = append(w.up.faults, &fault{mode: faultError, feed: true, clients: true, repaired: make(chan struct{})})
	}
	w.mu.Unlock()
	for outage > 0 && r.IntN(2) == 0 {
		w.settle()
		w.stepList(r)
		outage /= 2
		time.Sleep(outage)
	}
	time.Sleep(outage)
	w.settle()
	if outage > 0 {
		w.stepRepair(r)
	}
	w.stepList(r)
}

func (w *world) stepRefuse(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx := pick(r, modelContexts...)
	w.up.refused[ctx] = pick(r, http.StatusUnauthorized, http.StatusForbidden)
	w.note("upstream: refuses %s", ctx)
}

func (w *world) stepAccept(*rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.up.refused)+len(w.up.denied) > 0 {
		w.note("upstream: accepts everybody")
	}
	clear(w.up.refused)
	clear(w.up.denied)
}

// stepDeny has the upstream refuse one kind to a context. What the context is
// answered besides opens it nothing.
func (w *world) stepDeny(r *rand.Rand) {
	denied := view{anyKind(r), pick(r, "-", "-", "A", "A", "B")}
	w.mu.Lock()
	w.up.denied[denied] = pick(r, http.StatusUnauthorized, http.StatusForbidden, http.StatusOK)
	w.note("upstream: refuses %s to %s", denied.kind, denied.ctx)
	w.mu.Unlock()
	c := w.anyoneWho(r, func(c *client) bool { return c.ctx == denied.ctx && (c.modern() || denied.kind != revision.Discover) })
	if c == nil {
		return
	}
	other := pick(r, revision.Prompts, revision.Tools)
	if c.modern() {
		other = pick(r, revision.Prompts, revision.Tools, revision.Discover)
	}
	for _, k := range []revision.Kind{denied.kind, other} {
		w.send(c, w.question(r, c, k))
		w.settle()
	}
	if w.cfg.store && r.IntN(3) == 0 {
		w.stepRestart(r)
		w.settle()
	}
	w.send(c, w.question(r, c, denied.kind))
}

func (w *world) stepHints(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := anyKind(r)
	w.up.hints[k] = newHints(r)
	w.note("upstream: hints of %s are %+v", k, w.up.hints[k])
}

func (w *world) stepBlip(r *rand.Rand) {
	if w.cfg.fleet { // one may believe what another was given twice
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k := anyKind(r)
	w.up.blips[k] = 1 + r.IntN(6)
	w.note("upstream: %s will be empty %d times", k, w.up.blips[k])
}
