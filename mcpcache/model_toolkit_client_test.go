package mcpcache

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// These are the clients of a toolkit, and what they are told.

// listing is a request for a list.
func listing(k revision.Kind) request {
	return request{http: http.MethodPost, method: k.Method(), kind: k, list: true, params: make(map[string]any)}
}

// visit starts a request of a client of a toolkit, if it has the session that it needs.
func (w *world) visit(c *client, r request) {
	w.mu.Lock()
	if !c.modern() && c.session == "" && r.method != "initialize" {
		w.mu.Unlock()
		return
	}
	w.serial++
	x := w.newCall(c, r, "t"+strconv.Itoa(w.serial))
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel, x.heard = cancel, make(map[revision.Kind]int)
	x.before.at = time.Now()
	for _, s := range w.servers() {
		x.parts = append(x.parts, s.partFor(x))
	}
	w.pending[x] = true
	handler := x.at.toolkit
	w.mu.Unlock()
	x.run(ctx, handler, w.checkVisit)
}

// enter has a legacy client open a session, if it has none.
func (w *world) enter(c *client) {
	if c.modern() || c.session != "" {
		return
	}
	w.visit(c, request{http: http.MethodPost, method: "initialize", params: map[string]any{
		"protocolVersion": c.rev.String(), "capabilities": json.RawMessage("{}"), "clientInfo": map[string]any{"name": c.name, "version": "1"},
	}})
	w.settle()
	for range 10 {
		if w.mu.Lock(); c.session != "" {
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		time.Sleep(time.Second)
	}
}

// anyVisitor draws a client of the toolkit that can ask now.
func (w *world) anyVisitor(r *rand.Rand) *client {
	c := pick(r, w.toolkit.clients...)
	w.enter(c)
	return c
}

// stepJoined has a client ask for a list.
func (w *world) stepJoined(r *rand.Rand) {
	c, k := w.anyVisitor(r), pick(r, modelKindsOfToolkit...)
	w.visit(c, listing(k))
}

// stepJoinedLists has some ask at the same time.
func (w *world) stepJoinedLists(r *rand.Rand) {
	k := pick(r, modelKindsOfToolkit...)
	for range 2 + r.IntN(4) {
		w.visit(w.anyVisitor(r), listing(k))
	}
}

// stepJoinedListen opens a stream on which a client is told.
func (w *world) stepJoinedListen(r *rand.Rand) {
	w.listen(w.anyVisitor(r))
}

// listen opens a stream on which a client is told.
func (w *world) listen(c *client) {
	if !c.modern() {
		w.visit(c, request{http: http.MethodGet, stream: true})
		return
	}
	w.visit(c, request{http: http.MethodPost, method: "subscriptions/listen", stream: true, params: map[string]any{
		"notifications": map[string]any{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true},
	}})
}

// stepJoinedCall calls a tool of a server, which changes a list, and asks for that.
func (w *world) stepJoinedCall(r *rand.Rand) {
	c, k := w.anyVisitor(r), pick(r, modelKindsOfToolkit...)
	s := pick(r, w.servers()...)
	w.visit(c, request{http: http.MethodPost, method: "tools/call", params: map[string]any{
		"name": s.cfg.name + "__change:" + k.Method(),
	}})
	w.settle()
	if r.IntN(2) == 0 {
		time.Sleep(pick(r, 0, time.Second, 2*time.Second))
	}
	w.visit(c, listing(k))
}

// stepJoinedElsewhere has a feed of one instance be told of a change, and clients ask, most of them at the
// other. The server may fail meanwhile.
func (w *world) stepJoinedElsewhere(r *rand.Rand) {
	s, k, told := pick(r, w.servers()...), pick(r, modelKindsOfToolkit...), w.anyInstance(r)
	for _, c := range w.toolkit.clients {
		w.enter(c)
	}
	s.changeAt(r, s.instances[told.n], k)
	w.settle()
	fails := r.IntN(2) == 0
	for range 2 + r.IntN(3) {
		if r.IntN(3) > 0 {
			time.Sleep(time.Duration(r.IntN(int(1500 * time.Millisecond))))
			w.settle()
		}
		c := pick(r, w.toolkit.clients...)
		if c.at == told {
			c = pick(r, w.toolkit.clients...)
		}
		w.visit(c, listing(k))
		w.settle()
		if fails && r.IntN(2) == 0 {
			s.failLists(r)
			fails = false
		}
	}
}

// eraKind is a list as clients of an era see it.
type eraKind struct {
	era  revision.Era
	kind revision.Kind
}

// changesOf has what clients of a toolkit are told in.
var changesOf = map[revision.Kind][]byte{
	revision.Tools:   []byte(`"notifications/tools/list_changed"`),
	revision.Prompts: []byte(`"notifications/prompts/list_changed"`),
}

// tells finds out whether a client has been told of something. The caller holds the lock.
func (t *modelToolkit) tells(x *call) {
	if bytes.Contains(x.body.Bytes(), []byte(`"notice":`)) {
		x.w.fail("%s: the notice of a server was passed on", x)
	}
	for k, method := range changesOf {
		if n := bytes.Count(x.body.Bytes(), method); n > x.heard[k] {
			x.heard[k], x.at.told[eraKind{x.c.rev.Era(), k}] = n, true
			x.w.note("%s: it is told of a change of %s", x, k)
			maps.DeleteFunc(x.c.without, func(what partKind, _ absence) bool { return what.kind == k })
		}
	}
}

// settle has those count as told who were since the last step. The caller holds the lock.
func (t *modelToolkit) settle() {
	for _, at := range t.servers[0].instances {
		for what := range at.told {
			for _, s := range t.servers {
				s.instances[at.n].tellsOf(what)
			}
		}
		clear(at.told)
		for _, s := range t.servers {
			s.instances[at.n].looks()
		}
	}
	t.checkTold()
}

// tellsOf records that a client of a toolkit was told of a change, of whichever server. Other instances are
// told of what is new since clients were told last.
func (at *modelInstance) tellsOf(what eraKind) {
	w, known := at.w, at.knows(what.kind)
	news := maps.Clone(known)
	maps.DeleteFunc(news, func(v view, version int) bool { last, ok := at.last[v]; return !ok || version <= last })
	maps.Copy(at.last, known)
	if !w.cfg.personal {
		known = news
	}
	if w.disturbed && w.cfg.personal {
		return
	}
	for _, one := range w.instances {
		one.truth.rumour[what.kind] = time.Now()
		switch {
		case one == at:
			one.truth.hearsOf(known, true, what.kind)
		case !w.disturbed && at.together() && one.together():
			one.truth.hearsOf(news, one.isSettled(), what.kind)
		}
	}
}

// knows returns which versions of a kind clients may know of that are told of a change now. Of a server that
// may show each caller another list, they may know all that had been announced before. Of others, it is what
// there is now. They need not be told yet of what no server has announced, and was found since the last step.
func (at *modelInstance) knows(k revision.Kind) map[view]int {
	known := make(map[view]int)
	if at.w.cfg.personal {
		for v, version := range at.known {
			if v.kind == k {
				known[v] = version
			}
		}
		return known
	}
	if v, version, ok := at.finds(k); ok {
		known[v] = min(version, max(at.truth.floor[v], at.found[k]))
	}
	return known
}

// looks records what has been found by now. What others are told is lost while the store is in trouble.
func (at *modelInstance) looks() {
	for k := range changesOf {
		_, at.found[k], _ = at.finds(k)
		for v, version := range at.knows(k) {
			if _, ok := at.last[v]; !ok || at.w.disturbed {
				at.last[v] = version
			}
		}
	}
}

// finds returns which version of the feed's list there is for clients of whatever era.
func (at *modelInstance) finds(k revision.Kind) (v view, version int, ok bool) {
	for _, r := range at.w.revisions() {
		e := at.member().Cache.Pinned(r, k)
		if e == nil {
			continue
		}
		if s := stateOf(e); !ok || s.Version < version {
			v, version, ok = view{k, s.Ctx}, s.Version, true
		}
	}
	return v, version, ok
}

// hearsOnce has an instance hear an announcement once.
func (at *modelInstance) hearsOnce(a stores.Announcement) int {
	at.hears(a)
	return 1
}

// hears records what an instance hears of others: that a server has announced a change to one, or that
// clients of one are being told of a list that is another one here.
func (at *modelInstance) hears(a stores.Announcement) {
	var said struct {
		Kinds []string
		Lists []struct {
			Revision, Kind string
			Items          []byte
		}
	}
	_ = json.Unmarshal(a.Message, &said) // what only says that others have heard has no message
	at.w.mu.Lock()
	defer at.w.mu.Unlock()
	for _, name := range said.Kinds {
		k, _ := revision.ParseKind(name)
		for _, s := range at.w.servers() {
			s.instances[at.n].announced[k] = time.Now()
		}
	}
	for _, l := range said.Lists {
		k, _ := revision.ParseKind(l.Kind)
		has := func(one *modelInstance, otherwise bool) bool {
			e := one.member().Cache.Pinned(revision.Parse(l.Revision), k)
			return e != nil && bytes.Equal(e.Body.ItemsDigest[:], l.Items) != otherwise
		}
		of := slices.DeleteFunc(slices.Clone(at.w.servers()), func(s *world) bool {
			return !slices.ContainsFunc(s.instances, func(one *modelInstance) bool { return one.n != at.n && has(one, false) })
		})
		if len(of) == 0 { // the other has a newer one by now, of whichever server
			of = at.w.servers()
		}
		for _, s := range of {
			if one := s.instances[at.n]; has(one, true) {
				one.differed[k] = time.Now()
			}
		}
	}
}

// toldAnybody is what any client of an instance was told of a kind, by context.
func (t *truth) toldAnybody(k revision.Kind, told map[string]int) map[string]int {
	told = maps.Clone(told)
	for _, versions := range t.told {
		for v, version := range versions {
			if v.kind == k {
				told[v.ctx] = max(told[v.ctx], version)
			}
		}
	}
	return told
}

// checkVisit judges an answer of a toolkit that is complete. The caller holds the lock.
func (w *world) checkVisit(x *call) {
	status := ""
	if said := x.wrote["Cache-Status"]; len(said) == 1 {
		status = said[0]
	}
	err := x.unpack()
	switch {
	case x.panicked != nil:
		w.fail("%s: panic: %v", x, x.panicked)
	case x.cancelled, x.stream:
	case x.list:
		if w.checkJoined(x, status); err != nil {
			w.fail("%s: %v", x, err)
		}
	case x.method == "initialize" && x.status == http.StatusOK:
		x.c.session = x.wrote.Get("Mcp-Session-Id")
		fallthrough
	default:
		w.note("%s -> %d %s %v", x, x.status, status, x.err)
	}
}

// String describes what an answer has of a server.
func (r *result) String() string { return fmt.Sprintf("%+v", r.state) }
