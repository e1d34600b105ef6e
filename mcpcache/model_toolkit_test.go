package mcpcache

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// These are worlds of two servers behind one endpoint. Each server is a [world] of its own, with
// what is known of it; the first has the instances, the store and all clients.

// TestModelToolkit is TestModel with several servers behind one endpoint. Some worlds have a
// handler of one of the servers alone, besides. A step costs as much as three with one server.
func TestModelToolkit(t *testing.T) { testModel(t, *modelSteps/3, (*modelRun).drawToolkit) }

// modelToolkit is several servers behind one endpoint.
type modelToolkit struct {
	servers []*world
	clients []*client
}

// modelKindsOfToolkit are the kinds of lists that clients of a toolkit ask for.
var modelKindsOfToolkit = []revision.Kind{revision.Tools, revision.Tools, revision.Prompts}

// drawToolkit has a world have several servers.
func (m *modelRun) drawToolkit() {
	r := rand.New(rand.NewPCG(m.seed, 4))
	m.cfg.name, m.cfg.alone = "a", r.IntN(3) == 0
	if m.cfg.fleet = r.IntN(2) == 0; m.cfg.fleet {
		m.cfg.store, m.cfg.ahead = true, pick(r, -3*time.Second, 0, time.Hour)
	}
	m.cfg.isOneOf(r)
}

// isOneOf makes the upstream of a world one of a toolkit's servers.
func (c *worldConfig) isOneOf(r *rand.Rand) {
	c.several, c.personal, c.staleAfterNotice = true, r.IntN(2) == 0, r.IntN(3) == 0
	c.eras = pick(r, nil, nil, []string{"legacy"}, []string{"modern"})
	c.late, c.variesCaps, c.variesNames, c.reflects, c.apart = false, false, false, false, false
	if c.alone { // as if the two handlers said the same
		c.eras, c.admitFor = nil, 5*time.Minute
	}
}

// addServers adds the second server to a world, and the clients of both.
func (w *world) addServers() {
	r := rand.New(rand.NewPCG(w.seed, 5))
	cfg := newWorldConfig(r)
	cfg.name, cfg.fleet, cfg.store, cfg.ahead = "b", w.cfg.fleet, w.cfg.store, w.cfg.ahead
	cfg.ttl, cfg.gate, cfg.admitAll, cfg.admitFor = w.cfg.ttl, w.cfg.gate, w.cfg.admitAll, w.cfg.admitFor
	cfg.isOneOf(r)
	other := newWorld(w.id+"b", w.secrets, cfg, w.seed+1)
	other.journal = w.journal
	t := &modelToolkit{servers: []*world{w, other}}
	w.toolkit, other.toolkit = t, t
	for i := range 6 {
		c := newClient(r, i)
		c.at, c.ctx, c.caps = w.instances[i%len(w.instances)], pick(r, "-", "A", "A", "B"), "{}"
		t.clients = append(t.clients, c)
	}
}

// config is the configuration of the endpoint in front of all.
func (t *modelToolkit) config(ttl time.Duration) json.RawMessage {
	endpoint := t.servers[0].ofEndpoint(nil)
	endpoint["secret_file"] = t.servers[0].secrets
	if !t.hasDoor() {
		delete(endpoint, "admit_for")
		endpoint["admit"] = "all"
	}
	servers := make([]map[string]any, len(t.servers))
	for i, s := range t.servers {
		servers[i] = s.ofServer(ttl)
		servers[i]["name"] = s.cfg.name
		switch {
		case s.cfg.personal:
			servers[i]["authorization"] = map[string]any{"mode": Forward}
		case s.cfg.guard:
			servers[i]["authorization"] = map[string]any{"mode": ByGuard}
		}
	}
	return configOf(endpoint, map[string]any{"name": "all", "servers": servers})
}

// hasDoor reports whether one of the servers lets callers in.
func (t *modelToolkit) hasDoor() bool {
	return !t.servers[0].cfg.admitAll && t.servers[0].cfg.personal != t.servers[1].cfg.personal
}

// serveServers has the servers' worlds know what serves them.
func (at *modelInstance) serveServers() {
	at.w.mu.Lock()
	defer at.w.mu.Unlock()
	at.w.toolkit.forget(at)
	for i, s := range at.w.servers() {
		one := s.instances[at.n]
		clear(one.last)
		if one.toolkit = at.toolkit; one != at || one.handler == nil {
			one.server = at.toolkit.several.servers[i]
		}
	}
}

// member is the server as one of the toolkit's.
func (at *modelInstance) member() *backend.Ref {
	for _, s := range at.toolkit.several.servers {
		if s.Name == at.w.cfg.name {
			return s.backend
		}
	}
	return nil
}

// feedContext is the context of what the feed asks for.
func (w *world) feedContext() string {
	if w.cfg.guard {
		return "F"
	}
	return "-"
}

// revisions are those at which the server's lists are joined.
func (w *world) revisions() (rs []revision.Revision) {
	for _, r := range []revision.Revision{revision.LatestLegacy, revision.LatestModern} {
		if w.cfg.eras == nil || w.cfg.eras[0] == r.Era().String() {
			rs = append(rs, r)
		}
	}
	return rs
}

// stateOf returns what a copy says of the upstream.
func stateOf(e *cache.Entry) (s state) {
	for raw := range e.Each() {
		var it item
		if err := json.Unmarshal(raw, &it); err != nil {
			panic(err)
		}
		return it.X.state
	}
	return s
}

// stir records that something happens by which copies of those kinds, or of all, may count as
// outdated.
func (w *world) stir(kinds ...revision.Kind) {
	for _, k := range kinds {
		w.changed[k] = time.Now()
	}
	if len(kinds) == 0 {
		kinds = modelKinds
	}
	for _, k := range kinds {
		w.stirred[k] = time.Now()
	}
}
