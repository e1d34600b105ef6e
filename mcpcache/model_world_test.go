package mcpcache

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	feedclient "github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// worldConfig is what stays the same in a world.
type worldConfig struct {
	guard, admitAll, public, staleAfterNotice, store bool

	admitFor, ttl, stale, gate time.Duration

	// of the upstream
	sessions, listChanged bool
	// variesCaps: lists depend on the client's capabilities; variesNames: and on
	// its name, where there are sessions. late: a session has lists only after
	// notifications/initialized. silent: no change is announced. reflects: an
	// answer repeats a header of the request.
	variesCaps, variesNames, late, silent, reflects bool
	// unknown is the status with which it answers a session that it does not know.
	unknown int

	pageSize int

	// ruled: there are rules, of which a reload may bring others. long: items are.
	ruled, long bool

	// fleet: there are two instances, which share a store. ahead is how far its clock is
	// ahead of theirs.
	fleet bool
	ahead time.Duration

	// apart: clients reach the upstream by another Host than the feed.
	apart bool

	// several: the upstream is one of the servers of a toolkit. name is what it is called there.
	several bool
	name    string
	// personal: it is sent the credentials of callers. eras are those that the feed speaks; nil: both.
	personal bool
	eras     []string
	// alone: it has a handler of its own, too.
	alone bool
}

// The limits of worlds with rules: longer requests are read for what they name after the
// upstream has let the caller in, and still longer ones not at all.
const modelMaxRequest, modelMaxCall = 2 << 10, 4 << 10

// maxModelTTL is the max_ttl of every world.
const maxModelTTL = 15 * time.Minute

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func newWorldConfig(r *rand.Rand) worldConfig {
	c := worldConfig{
		guard: r.IntN(4) == 0, admitAll: r.IntN(4) == 0, public: r.IntN(2) == 0, staleAfterNotice: r.IntN(8) == 0,
		store:    r.IntN(2) == 0,
		admitFor: pick(r, time.Minute, 5*time.Minute, time.Hour), ttl: pick(r, 30*time.Second, 5*time.Minute),
		stale: pick(r, 0, time.Minute, time.Hour), gate: pick(r, 0, 2*time.Second),
		sessions: r.IntN(5) > 0, listChanged: r.IntN(8) > 0, variesCaps: r.IntN(3) == 0, variesNames: r.IntN(2) == 0,
		late: r.IntN(4) == 0, silent: r.IntN(6) == 0, reflects: r.IntN(3) == 0,
		pageSize: pick(r, 0, 0, 2, 3),
	}
	c.unknown = pick(r, http.StatusNotFound, http.StatusNotFound, http.StatusBadRequest, http.StatusOK)
	c.variesNames = c.variesNames && c.variesCaps
	c.apart = r.IntN(3) == 0
	c.listChanged = c.listChanged && (!c.silent || r.IntN(4) == 0)
	return c
}

// journal is what has happened. The servers of a toolkit share one, and its lock.
type journal struct {
	mu        sync.Mutex
	violation string
	trace     []string
}

// world is a product, its upstream and its clients, in a time of their own.
type world struct {
	*journal

	id   string
	cfg  worldConfig
	seed uint64 // of what happens while a step goes on
	born time.Time

	up    *modelUpstream
	known *common

	instances []*modelInstance
	loading   *modelInstance   // of which a configuration is being loaded
	shared    *storetest.Trial // nil: there is one instance
	secrets   string           // the file with what instances have in common

	stored  map[string][]byte
	unsaved map[string]bool // copies of which the store last failed to do something

	// toolkit has the upstream as one of its servers; nil: there is none.
	toolkit *modelToolkit
	// stirred is when something last happened by which copies of a kind may count as outdated.
	// Of them, changed is when it was a change.
	stirred, changed map[revision.Kind]time.Time
	// disturbed: the store is in trouble.
	disturbed bool

	clients []*client
	pending map[*call]bool
	serial  int
	hits    int
	// moment counts the times that all has settled, crowd the requests that began
	// in between.
	moment int
	crowd  map[int]int

	// asking are the requests under way by their serials.
	asking map[string]*call
}

func newWorld(id, secrets string, cfg worldConfig, seed uint64) *world {
	w := &world{
		journal: new(journal), id: id, cfg: cfg, seed: seed, born: time.Now(), known: newCommon(), secrets: secrets, pending: make(map[*call]bool),
		stored: make(map[string][]byte), unsaved: make(map[string]bool), crowd: make(map[int]int), asking: make(map[string]*call),
		stirred: make(map[revision.Kind]time.Time), changed: make(map[revision.Kind]time.Time),
	}
	w.up = &modelUpstream{
		w: w, versions: make(map[view]int), counts: make(map[view]int), hints: make(map[revision.Kind]hints),
		blips: make(map[revision.Kind]int), sessions: make(map[string]*modelSession),
		refused: make(map[string]int), denied: make(map[view]int), sent: make(map[string]*sent),
	}
	r := rand.New(rand.NewPCG(seed, 2))
	for _, k := range modelKinds {
		w.up.change(k, modelContexts)
		w.up.hints[k] = newHints(r)
	}
	w.makeInstances()
	for i := range 9 {
		c := newClient(r, i)
		c.at = w.instances[i%len(w.instances)]
		w.clients = append(w.clients, c)
	}
	if cfg.ruled {
		rules := newRules(r)
		for _, at := range w.instances {
			at.rules = rules
		}
		w.note("the rules are %v", rules)
	}
	modelWorlds.Store(id, w)
	return w
}

func newHints(r *rand.Rand) hints {
	h := hints{ttl: pick(r, -1, -1, 0, 20_000, 60_000, 600_000), scope: pick(r, "", "public", "public", "private")}
	if r.IntN(8) == 0 {
		h.second = pick(r, "public", "private")
	}
	return h
}

// ofServer are the options of the product that are about the upstream.
func (w *world) ofServer(ttl time.Duration) map[string]any {
	upstream := map[string]any{"handler": "mcp_cache_model", "world": w.id}
	c := map[string]any{
		"upstream":           upstream,
		"ttl":                ttl,
		"max_ttl":            maxModelTTL,
		"stale_if_error":     w.cfg.stale,
		"stale_after_notice": w.cfg.staleAfterNotice,
	}
	if !w.cfg.apart {
		c["host"] = "example.com" // which is that of clients
	}
	if w.cfg.fleet {
		upstream["upstreams"] = []any{map[string]any{"dial": "mcp" + w.cfg.name + ".internal:3001"}}
	}
	if w.cfg.guard {
		c["guard"] = map[string]any{"guard": "model"}
	}
	if w.cfg.public {
		c["scope"] = "public"
	}
	if w.cfg.eras != nil {
		c["eras"] = w.cfg.eras
	}
	return c
}

// ofEndpoint are the options of the product that are about its endpoint.
func (w *world) ofEndpoint(rules modelRules) map[string]any {
	c := map[string]any{"gate": w.cfg.gate}
	switch {
	case w.cfg.fleet:
		c["store"], c["secret_file"] = map[string]any{"store": "model_fleet", "world": w.id}, w.secrets
	case w.cfg.store:
		c["store"] = map[string]any{"store": "model", "world": w.id}
	default:
		c["store"] = map[string]any{"store": "off"}
	}
	if w.cfg.admitAll {
		c["admit"] = "all"
	} else {
		c["admit_for"] = w.cfg.admitFor
	}
	if rules != nil {
		c["rules"], c["max_request"], c["max_call"] = rules.config(), modelMaxRequest, modelMaxCall
		if rules[0].unlisted {
			c["unlisted"] = "allow"
		}
	}
	return c
}

// configOf is the product's configuration, of such options.
func configOf(options ...map[string]any) json.RawMessage {
	c := make(map[string]any)
	for _, some := range options {
		maps.Copy(c, some)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return raw
}

// settle waits until everything that can happen now has happened.
func (w *world) settle() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.toolkit != nil {
		w.toolkit.settle()
	}
	for _, s := range w.servers() {
		for _, at := range s.instances {
			for _, n := range at.heard {
				at.truth.hears(n, "", "", "", false)
			}
			at.heard, at.known = nil, maps.Clone(at.truth.floor)
			at.settleLoss()
		}
	}
	w.moment++
}

// delivers records that a page is about to reach whoever asked for it.
func (w *world) delivers(a *arrival, p *page) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.probe {
		return
	}
	a.at.truth.delivers(a, p, lifetime(p.hints.ttl, max(a.ttl, w.longestTTL(a.at)), maxModelTTL))
	if a.feed() && time.Since(a.arrived) < feedclient.RequestTimeout { // after that, the feed has given the request up
		f := feedView{a.kind, a.rev, w.up.askedAs(a)}
		a.at.truth.deliversToFeed(a, f, p)
		w.walks(a, f, p)
	}
}

// draw returns a number below n. It follows from what it is about and not from
// the order in which things happen, which no seed decides.
func (w *world) draw(n int, about ...any) int {
	h := fnv.New64a()
	fmt.Fprintln(h, about...)
	return rand.New(rand.NewPCG(w.seed, h.Sum64())).IntN(n)
}

// split cuts an event into pieces at any byte.
func (w *world) split(b []byte, about ...any) [][]byte {
	var pieces [][]byte
	for len(b) > 1 && w.draw(3, "split", len(b), about) > 0 {
		n := 1 + w.draw(len(b)-1, "piece", len(b), about)
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return append(pieces, b)
}

// fail records the first violation of a promise.
func (w *world) fail(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
		w.note("VIOLATION %s", w.violation)
	}
}

// note adds a line to the trace. The caller holds the lock, if others run.
func (w *world) note(format string, args ...any) {
	said := fmt.Sprintf(format, args...)
	if w.cfg.name != "" {
		said = w.cfg.name + ": " + said
	}
	w.trace = append(w.trace, fmt.Sprintf("%9s  ", time.Since(w.born).Round(time.Millisecond))+said)
}

// end takes the world down. Every request is answered once the upstream works.
func (w *world) end() {
	for _, at := range w.instances {
		if w.cfg.fleet {
			at.way.SetDelivery(nil) // nothing is late any more
		}
	}
	w.mu.Lock()
	for _, s := range w.servers() {
		s.up.repair()
		s.up.release()
		clear(s.up.refused)
		clear(s.up.denied)
		for _, stream := range s.up.streams {
			stream.end()
		}
	}
	for c := range w.pending {
		if c.stream {
			c.cancel()
		}
	}
	w.mu.Unlock()
	time.Sleep(time.Minute)
	w.settle()
	w.mu.Lock()
	for c := range w.pending {
		w.fail("%s was never answered", c)
		c.cancel()
	}
	w.mu.Unlock()
	for _, at := range w.instances {
		at.calls.Wait()
		at.cancel()
	}
	pool = w.instances[0].pool
	for _, s := range w.servers() {
		modelWorlds.Delete(s.id)
	}
}

// servers are the world's upstreams, each with what is known of it.
func (w *world) servers() []*world {
	if w.toolkit == nil {
		return []*world{w}
	}
	return w.toolkit.servers
}

func (w *world) String() string {
	lines := w.trace
	if len(lines) > 80 {
		lines = lines[len(lines)-80:]
	}
	said := ""
	for _, s := range w.servers() {
		said += fmt.Sprintf("%+v\n", s.cfg)
	}
	return said + strings.Join(lines, "\n")
}
