package mcpcache

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func init() {
	caddy.RegisterModule(modelGuest{})
	caddy.RegisterModule(modelGuard{})
}

// modelWorlds are the worlds that are being tested, by the ID that their
// configuration names.
var modelWorlds sync.Map

// modelGuest is the handler through which the product reaches the model
// upstream of a world.
type modelGuest struct {
	World string `json:"world"`
	// Upstreams is what says that several instances reach the same upstream.
	Upstreams []any `json:"upstreams,omitempty"`

	at *modelInstance
}

// CaddyModule returns the Caddy module information.
func (modelGuest) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.mcp_cache_model",
		New: func() caddy.Module { return new(modelGuest) },
	}
}

// Provision finds the world.
func (g *modelGuest) Provision(caddy.Context) error {
	w, err := worldNamed(g.World)
	if err != nil {
		return err
	}
	g.at = w.loading
	return nil
}

func worldNamed(id string) (*world, error) {
	w, ok := modelWorlds.Load(id)
	if !ok {
		return nil, fmt.Errorf("there is no world %q", id)
	}
	return w.(*world), nil
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (g *modelGuest) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return g.at.w.up.serve(g.at, w, r)
}

// modelGuard gives the feed the token of the context F.
type modelGuard struct{}

// CaddyModule returns the Caddy module information.
func (modelGuard) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: guards.Namespace + ".model", New: func() caddy.Module { return new(modelGuard) }}
}

// Authorize implements [guards.Guard].
func (*modelGuard) Authorize(_ context.Context, r *http.Request) error {
	r.Header.Set("Authorization", tokenOf("F"))
	return nil
}

// Identity implements [guards.Guard].
func (*modelGuard) Identity() string { return "F" }

// modelUpstream is an MCP server of both eras. Everything but its deliveries
// happens under the world's lock.
type modelUpstream struct {
	w *world
	// failedAt is when a request has failed last: who has asked for the same may
	// have waited for it.
	failedAt time.Time
	// hastened is when answers were last held back no more.
	hastened time.Time

	versions map[view]int
	counts   map[view]int
	hints    map[revision.Kind]hints
	blips    map[revision.Kind]int // how many more lists are empty for no reason
	sessions map[string]*modelSession
	opened   int
	refused  map[string]int // context → 401 or 403
	denied   map[view]int   // what a context is refused → 401 or 403, or 200 with an error
	faults   []*fault
	holds    []*hold
	streams  []*modelStream
	notices  []*notice
	sent     map[string]*sent
	// lists is called before a page is given, with the world's lock held; nil: nothing is.
	lists func(a *arrival)
	// postponed keeps requests for the end of a session from arriving until it
	// is closed; nil if nothing does.
	postponed chan struct{}
}

// sent is what the upstream has answered to a client's request.
type sent struct {
	status  int
	begun   int // when the header left, as in known.next
	body    []byte
	failed  bool // it has failed in a way that excuses a stale answer
	aborted bool // the handler has panicked
	err     bool // the handler has returned an error
	probe   bool // the client has asked for something else
}

// serve answers a request that an instance sends.
func (u *modelUpstream) serve(at *modelInstance, rw http.ResponseWriter, r *http.Request) error {
	a, err := readArrival(at, r)
	if err != nil {
		return caddyhttp.Error(http.StatusBadRequest, err)
	}
	u.w.mu.Lock()
	postponed := u.postponed
	u.w.mu.Unlock()
	if postponed != nil && a.http == http.MethodDelete && !a.feed() {
		<-postponed
	}
	u.w.mu.Lock()
	reply := u.decide(a)
	u.w.mu.Unlock()
	return reply.deliver(rw, r)
}

// decide makes the answer to a request. What it says is settled now, however
// long it takes to arrive.
func (u *modelUpstream) decide(a *arrival) *reply {
	a.seq, a.ttl = u.w.known.next(), u.w.longestTTL(a.at)
	reply := &reply{up: u, a: a, status: http.StatusOK, sent: new(sent)}
	if !a.feed() {
		u.w.arrives(a)
		reply.sent.probe = a.probe
		u.sent[a.serial] = reply.sent
	}
	if a.http == http.MethodDelete {
		a.at.truth.leaves(a)
	}
	reply.hold = u.holdOf(a)
	f := u.faultOf(a)
	if f.beforeAnswer() {
		reply.fault, reply.sent.failed = f, true
		u.failedAt = time.Now()
		return reply
	}
	if status := u.refused[a.ctx]; status != 0 {
		reply.refuse(status)
		return reply
	}
	if s := u.sessions[a.session]; a.session != "" && (s == nil || s.ctx != a.ctx) {
		reply.unknownSession(u.w.cfg.unknown)
		return reply
	}
	if u.w.cfg.sessions && u.w.cfg.variesNames && a.list && a.session == "" && !a.modern() {
		reply.refuse(http.StatusBadRequest) // it has to know the client
		return reply
	}
	if status := u.denied[view{a.kind, a.ctx}]; status != 0 && a.list && !a.feed() {
		reply.deny(status)
		return reply
	}
	u.answer(a, reply)
	reply.fault = f
	return reply
}

func (u *modelUpstream) answer(a *arrival, reply *reply) {
	switch {
	case a.http == http.MethodGet:
		reply.stream = u.openStream(a)
	case a.batch != nil:
		u.answerBatch(a, reply)
	case a.http == http.MethodDelete:
		u.endSession(a.session)
		u.w.known.ended[a.session] = true
		reply.status = http.StatusNoContent
	case a.id == nil:
		u.notified(a)
		reply.status = http.StatusAccepted
	case a.list:
		u.answerList(a, reply)
	case a.method == "initialize":
		u.initialize(a, reply)
	case a.method == "subscriptions/listen":
		reply.stream = u.openStream(a)
	case a.method == "tools/call":
		u.call(a, reply)
	case u.perform(a, reply):
	default:
		reply.fail(-32601, "method not found")
	}
}

func (u *modelUpstream) answerList(a *arrival, reply *reply) {
	if s := u.sessions[a.session]; s != nil && !s.ready {
		reply.fail(-32600, "the session is not initialized")
		return
	}
	p, ok := u.list(a)
	if !ok {
		reply.fail(-32602, "bad cursor")
		return
	}
	reply.page, reply.events = p, u.prefersEvents(a)
	reply.result(p.result)
}

// list makes the page that a request asks for, as things are now.
func (u *modelUpstream) list(a *arrival) (*page, bool) {
	if u.lists != nil {
		u.lists(a)
	}
	v := view{a.kind, a.ctx}
	s := state{Server: u.w.cfg.name, Ctx: a.ctx, Version: u.versions[v], Rev: a.rev, Of: u.counts[v], Long: u.w.cfg.long}
	if u.w.cfg.variesCaps {
		s.Caps = u.clientOf(a)
	}
	if session := u.sessions[a.session]; session != nil && session.extra[a.kind] > 0 {
		s.Session, s.Extra = session.id, session.version[a.kind]
		s.Of += session.extra[a.kind]
	}
	if a.kind.ItemsKey() == "" {
		s.Of = 0
	}
	offset := 0
	if a.cursor != nil {
		var ok bool
		if offset, ok = offsetOf(s, *a.cursor); !ok {
			return nil, false
		}
	} else if a.feed() && u.blips[a.kind] > 0 && s.Of > 0 {
		u.blips[a.kind]--
		s.Blip = true
	}
	asker := ""
	if u.w.cfg.reflects {
		asker = a.serial
	}
	return render(a.kind, s, u.hints[a.kind], offset, u.w.cfg.pageSize, u.capabilities(), asker), true
}

func (u *modelUpstream) capabilities() string {
	return fmt.Sprintf(`{"tools":{"listChanged":%[1]t},"prompts":{"listChanged":%[1]t},"resources":{"listChanged":%[1]t}}`,
		u.w.cfg.listChanged)
}

// change makes a new version of a kind for some contexts.
func (u *modelUpstream) change(k revision.Kind, contexts []string) {
	u.w.stir(k)
	for _, ctx := range contexts {
		v := view{k, ctx}
		u.versions[v]++
		if u.counts[v] = u.w.draw(6, "items", v, u.versions[v]); u.w.cfg.several {
			u.counts[v] = max(u.counts[v], 1) // a part that is missing is none that is empty
		}
	}
}

// tokenEnd is when the token of C says that it expires. The clock of a bubble
// begins with the year 2000.
var tokenEnd = time.Date(2000, 1, 1, 0, 40, 0, 0, time.UTC)

// tokenOf is the Authorization header of a context. That of C is a JWT.
func tokenOf(ctx string) string {
	switch ctx {
	case "-":
		return ""
	case "C":
		claims := fmt.Sprintf(`{"sub":"C","exp":%d}`, tokenEnd.Unix())
		return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	return "Bearer " + ctx
}

func contextNamed(authorization string) string {
	for _, ctx := range modelContexts {
		if authorization == tokenOf(ctx) {
			return ctx
		}
	}
	return "?"
}
