package mcpcache

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// step is one thing that happens in a world. What exactly follows from its
// seed, whatever was before: any steps can be left out of a run.
type step struct {
	kind int
	seed uint64
}

// stepKind is something that can happen, and how often.
type stepKind struct {
	name   string
	weight int
	run    func(*world, *rand.Rand)
	in     func(worldConfig) bool // nil: in all worlds
}

// stepKinds are the things that can happen with one server.
var stepKinds = []stepKind{
	{"list", 40, (*world).stepList, nil},
	{"lists", 5, (*world).stepLists, nil},
	{"change", 14, (*world).stepChange, nil},
	{"notice", 3, (*world).stepNotice, nil},
	{"call", 9, (*world).stepCall, nil},
	{"initialize", 7, (*world).stepInitialize, nil},
	{"listen", 7, (*world).stepListen, nil},
	{"end stream", 3, (*world).stepEndStream, nil},
	{"fail", 4, (*world).stepFail, nil},
	{"repair", 5, (*world).stepRepair, nil},
	{"hold", 6, (*world).stepHold, nil},
	{"release", 7, (*world).stepRelease, nil},
	{"overtake", 5, (*world).stepOvertake, nil},
	{"sleep", 12, (*world).stepSleep, nil},
	{"reload", 3, (*world).stepReload, nil},
	{"restart", 1, (*world).stepRestart, nil},
	{"delete", 3, (*world).stepDelete, nil},
	{"ping", 3, (*world).stepPing, nil},
	{"forget", 1, (*world).stepForget, nil},
	{"refuse", 2, (*world).stepRefuse, nil},
	{"deny", 3, (*world).stepDeny, nil},
	{"accept", 3, (*world).stepAccept, nil},
	{"hints", 3, (*world).stepHints, nil},
	{"blip", 3, (*world).stepBlip, nil},
	{"cancel", 2, (*world).stepCancel, nil},
	{"mistake", 3, (*world).stepMistake, nil},
	{"quiet change", 20, (*world).stepQuietChange, worldConfig.isSilent},
	{"upstream restart", 2, (*world).stepUpstreamRestart, nil},
	{"name", 45, (*world).stepName, worldConfig.hasRules},
	{"shown", 8, (*world).stepShown, worldConfig.hasRules},
	{"resume", 8, (*world).stepResume, worldConfig.hasRules},
	{"other rules", 6, (*world).stepRules, worldConfig.hasRules},
	{"elsewhere", 20, (*world).stepElsewhere, worldConfig.isFleet},
	{"cut", 6, (*world).stepCut, worldConfig.isFleet},
	{"delivery", 4, (*world).stepDelivery, worldConfig.isFleet},
	{"emptied", 2, (*world).stepEmptied, worldConfig.isFleet},
	{"heal", 8, (*world).stepHeal, worldConfig.isFleet},
}

func (c worldConfig) hasRules() bool { return c.ruled }
func (c worldConfig) isFleet() bool  { return c.fleet }
func (c worldConfig) isSilent() bool { return c.silent }

func (c worldConfig) stepKinds() []stepKind {
	if c.several {
		return toolkitStepKinds
	}
	return stepKinds
}

// newSteps draws n steps.
func newSteps(r *rand.Rand, cfg worldConfig, n int) []step {
	var bag []int
	for kind, k := range cfg.stepKinds() {
		if k.in != nil && !k.in(cfg) {
			continue
		}
		for range k.weight {
			bag = append(bag, kind)
		}
	}
	steps := make([]step, n)
	for i := range steps {
		steps[i] = step{pick(r, bag...), r.Uint64()}
	}
	return steps
}

// do runs a step and waits until nothing more follows from it by itself.
func (w *world) do(s step) {
	w.cfg.stepKinds()[s.kind].run(w, rand.New(rand.NewPCG(s.seed, 0)))
	w.settle()
}

func (w *world) anyone(r *rand.Rand) *client { return pick(r, w.clients...) }

// anyoneWho returns a client that is as wanted, if there is one.
func (w *world) anyoneWho(r *rand.Rand, wanted func(*client) bool) *client {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range r.Perm(len(w.clients)) {
		if wanted(w.clients[i]) {
			return w.clients[i]
		}
	}
	return nil
}

// question draws a request for a list.
func (w *world) question(r *rand.Rand, c *client, k revision.Kind) request {
	q := request{
		http: http.MethodPost, method: k.Method(), kind: k, list: true, params: make(map[string]any),
		events: r.IntN(6) == 0, unknown: r.IntN(25) == 0,
	}
	if r.IntN(15) == 0 {
		q.hop = pick(r, "Authorization", "Authorization", "Mcp-Session-Id")
	}
	if k == revision.Reads {
		q.params["uri"] = "file:///r"
	}
	q.gzip = w.cfg.long && r.IntN(2) == 0
	w.mu.Lock()
	defer w.mu.Unlock()
	if cursor, ok := c.cursors[k]; ok && r.IntN(3) == 0 {
		q.cursor, q.params["cursor"] = true, cursor
	}
	return q
}

// anyKind draws a kind: mostly tools, so that things happen to the same list.
func anyKind(r *rand.Rand) revision.Kind {
	if r.IntN(2) == 0 {
		return revision.Tools
	}
	return pick(r, modelKinds...)
}

func (w *world) stepList(r *rand.Rand) {
	if w.toolkit != nil && (!w.cfg.alone || r.IntN(2) == 0) {
		w.stepJoined(r)
		return
	}
	c := w.anyone(r)
	k := anyKind(r)
	if k == revision.Discover && !c.modern() {
		k = revision.Tools
	}
	q := w.question(r, c, k)
	if len(c.past) > 0 && r.IntN(8) == 0 {
		q.past = pick(r, c.past...)
	}
	w.send(c, q)
}

func (w *world) stepLists(r *rand.Rand) {
	k := pick(r, revision.Tools, revision.Prompts, revision.ResourceTemplates)
	for range 4 + r.IntN(8) {
		c := w.anyone(r)
		w.send(c, w.question(r, c, k))
	}
	if r.IntN(2) == 0 {
		w.change(r, k)
	}
}

// change makes a new version of a list and announces it to somebody, or nobody.
func (w *world) change(r *rand.Rand, k revision.Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	contexts := modelContexts
	if r.IntN(3) == 0 {
		contexts = contexts[r.IntN(len(contexts)):][:1]
	}
	w.up.change(k, contexts)
	w.note("upstream: %s changes for %v", k, contexts)
	if k != revision.Discover {
		w.announce(r, k)
	}
}

// announce sends a notice to some of the streams. The caller holds the lock.
func (w *world) announce(r *rand.Rand, k revision.Kind) {
	target := pick(r, "all", "all", "feed", "clients", "one client", "nobody")
	if w.cfg.silent {
		target = "nobody"
	}
	n := w.up.announce(k)
	streams := slices.Clone(w.up.streams)
	r.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
	to := 0
	for _, s := range streams {
		switch {
		case target == "nobody", target == "feed" && !s.a.feed(), s.a.feed() && target != "all" && target != "feed",
			target == "one client" && to > 0:
			continue
		}
		to++
		s.tell(n)
	}
	w.note("upstream: notice %d about %s to %s: %d streams", n.id, k, target, to)
}

func (w *world) stepChange(r *rand.Rand) { w.change(r, anyKind(r)) }

func (w *world) stepNotice(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.announce(r, pick(r, modelKinds[:5]...))
}

// stepCall calls a tool that changes a list, which the caller may ask for at once.
// The notice may come in the answer, later on the caller's other streams, or not
// at all.
func (w *world) stepCall(r *rand.Rand) {
	c := w.anyone(r)
	k := pick(r, revision.Tools, revision.Tools, revision.Prompts)
	tool := pick(r, "login", "login", "logout", "change")
	w.send(c, request{
		http: http.MethodPost, method: "tools/call", params: map[string]any{"name": tool + ":" + k.Method()},
	})
	w.settle()
	if r.IntN(2) == 0 {
		time.Sleep(pick(r, 0, 0, promisedLag))
		w.send(c, w.question(r, c, k))
		w.settle()
	}
	if w.cfg.silent || r.IntN(2) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.up.announce(k)
	for _, s := range w.up.streams {
		if c.session != "" && s.a.session == c.session {
			s.tell(n)
			w.note("upstream: notice %d about %s to session %s", n.id, k, c.session)
		}
	}
}

func (w *world) stepInitialize(r *rand.Rand) {
	c := w.anyoneWho(r, func(c *client) bool { return !c.modern() && (c.session == "" || r.IntN(3) == 0) })
	if c == nil {
		return
	}
	w.send(c, request{http: http.MethodPost, method: "initialize", params: map[string]any{
		"protocolVersion": c.rev.String(), "capabilities": json.RawMessage(c.caps),
		"clientInfo": map[string]any{"name": c.name, "version": "1"},
	}})
	w.settle()
	if r.IntN(3) == 0 { // before or after the lists are there
		w.send(c, request{http: http.MethodGet, stream: true})
		w.settle()
	}
	if w.cfg.late || r.IntN(2) == 0 {
		time.Sleep(pick(r, 0, 2*time.Second))
		w.send(c, request{http: http.MethodPost, method: "notifications/initialized", notify: true})
		w.settle()
	}
	if r.IntN(2) == 0 { // as clients do
		w.send(c, w.question(r, c, revision.Tools))
	}
}

func (w *world) stepListen(r *rand.Rand) {
	c := w.anyone(r)
	elsewhere := r.IntN(4) == 0
	if c.modern() {
		w.send(c, request{http: http.MethodPost, method: "subscriptions/listen", stream: true, elsewhere: elsewhere, params: map[string]any{
			"notifications": map[string]any{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true},
		}})
		return
	}
	w.send(c, request{http: http.MethodGet, stream: true, elsewhere: elsewhere})
}

// stepPing asks for something else than a list. What the upstream says of the
// caller counts, at whatever path.
func (w *world) stepPing(r *rand.Rand) {
	c := w.anyone(r)
	q := request{http: http.MethodPost, method: "ping", elsewhere: r.IntN(2) == 0}
	if len(c.past) > 0 && r.IntN(4) == 0 {
		q.past = pick(r, c.past...)
	}
	w.send(c, q)
	w.settle()
	w.send(c, w.question(r, c, revision.Tools))
}

func (w *world) stepEndStream(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.up.streams) == 0 {
		return
	}
	s := pick(r, w.up.streams...)
	s.end()
	w.stir()
	w.note("upstream: ends a stream of %s (feed: %t)", s.a.caller(), s.a.feed())
}

func (w *world) stepDelete(r *rand.Rand) {
	c := w.anyoneWho(r, func(c *client) bool { return c.session != "" })
	if c == nil {
		return
	}
	k := pick(r, modelKinds[:4]...)
	w.send(c, w.question(r, c, k))
	w.settle()
	if r.IntN(3) == 0 { // it takes its time to arrive
		w.mu.Lock()
		w.up.postponed = make(chan struct{})
		w.mu.Unlock()
	}
	other, also := w.anyone(r), ""
	if one := w.anyoneWho(r, func(one *client) bool { return one != c && one.session != "" }); one != nil && r.IntN(3) == 0 {
		other, also = one, one.session
	}
	w.send(c, request{http: http.MethodDelete, also: also, elsewhere: r.IntN(4) == 0})
	w.settle()
	w.mu.Lock()
	postponed := w.up.postponed
	w.up.postponed = nil
	w.mu.Unlock()
	if postponed != nil {
		w.send(c, w.question(r, c, k))
		w.settle()
		close(postponed)
	}
	if r.IntN(4) > 0 {
		w.settle()
	}
	w.send(c, w.question(r, c, k)) // by mistake
	if also != "" {
		w.send(other, w.question(r, other, k))
	}
	w.settle()
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.IntN(2) == 0 && c.session != "" {
		c.past, c.session = append(c.past, c.session), ""
	}
}

func (w *world) stepCancel(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for x := range w.pending {
		if r.IntN(2) == 0 {
			x.cancelled = true
			w.note("%s: goes away", x)
			x.cancel()
		}
	}
}

func (w *world) noteNow(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(format, args...)
}

func (w *world) failNow(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail("%v", err)
}
