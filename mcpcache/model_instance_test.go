package mcpcache

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// modelInstance is one of the Caddys through which clients reach the upstream.
type modelInstance struct {
	w *world
	n int

	serving
	cancel func()
	pool   *caddy.UsagePool // it shares no backend with another
	calls  sync.WaitGroup
	ttls   []time.Duration // of the configurations in use

	truth *truth
	// heard are the notices that the feed was sent since the last step.
	heard []*notice
	// noticedLoss says that a feed has met the loss of its own session since the last step.
	// feedReopened has the revisions whose feed has opened a session since, and whether the feed
	// did that as itself: a session that it opens as another client shows nothing of clients' sessions.
	noticedLoss  bool
	feedReopened map[string]bool

	way *storetest.Shared // to the store of a fleet
	cut bool              // there is none

	// told are the kinds of which clients of a toolkit were told here since the last step, and
	// known what the feed had heard of by then.
	told  map[eraKind]bool
	known map[view]int
	// found is the version of a list that had been found by the last step.
	found map[revision.Kind]int
	// last is the version of which clients were told last, or which the present configuration has found first.
	last map[view]int
	// differed is when another instance's clients were last told of a list that is another one here, and
	// announced when a change was last announced by another.
	differed, announced map[revision.Kind]time.Time
}

// serving is a handler of the product, and its rules.
type serving struct {
	handler *Handler  // nil if the server is one of a toolkit alone
	server  *upstream // that of the handler, or that of the toolkit
	rules   modelRules
	toolkit *Handler // nil: there is none
}

// makeInstances makes one instance, or two of a fleet. The first has the pool of other tests.
func (w *world) makeInstances() {
	n := 1
	if w.cfg.fleet {
		n, w.shared = 2, storetest.NewTrial()
		w.shared.SetTrouble(w.refuseNow)
	}
	for i := range n {
		at := &modelInstance{w: w, n: i, pool: pool, truth: newTruth(w.known), feedReopened: make(map[string]bool), told: make(map[eraKind]bool), found: make(map[revision.Kind]int), last: make(map[view]int), differed: make(map[revision.Kind]time.Time), announced: make(map[revision.Kind]time.Time)}
		if w.cfg.fleet {
			at.way = &storetest.Shared{Trial: w.shared, Ahead: w.cfg.ahead, Within: time.Duration(i) * 10 * time.Millisecond}
			at.way.SetDelivery(at.hearsOnce)
		}
		if i > 0 {
			at.pool = caddy.NewUsagePool()
		}
		w.instances = append(w.instances, at)
	}
}

// anyInstance draws an instance.
func (w *world) anyInstance(r *rand.Rand) *modelInstance {
	if len(w.instances) == 1 {
		return w.instances[0]
	}
	return pick(r, w.instances...)
}

// longestTTL is the longest time for which an answer may be fresh that an instance is about to be
// given, without a hint. Of several instances another may take it, and have another configuration
// by then. A request is answered by the configuration under which it began.
func (w *world) longestTTL(at *modelInstance) time.Duration {
	if w.cfg.fleet {
		return max(w.cfg.ttl, longestReloadedTTL)
	}
	longest := slices.Max(at.ttls)
	for x := range w.pending {
		if x.at == at {
			longest = max(longest, x.ttl)
		}
	}
	return longest
}

// confirmsAll has all instances know that there is reason to believe in empty lists.
func (w *world) confirmsAll(n *notice) {
	for _, at := range w.instances {
		at.truth.confirmsAll(n)
	}
}

// provision makes a handler as Caddy does for a new configuration. cancel is
// what Caddy does when the configuration goes.
func (at *modelInstance) provision(ttl time.Duration, rules modelRules) (s serving, start, cancel func(), err error) {
	base, err := caddy.ProvisionContext(&caddy.Config{
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {
			BaseLog: caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`), Level: "ERROR"},
		}}},
	})
	if err != nil {
		return s, nil, nil, fmt.Errorf("making a context: %w", err)
	}
	ctx, end := caddy.NewContext(base)
	w := at.w
	cancel = func() {
		pool = at.pool // in which it has what lives as long as a configuration
		end()
	}
	w.mu.Lock()
	for _, s := range w.servers() {
		one := s.instances[at.n]
		one.ttls, s.loading = append(one.ttls, ttl), one
	}
	pool = at.pool
	w.mu.Unlock()
	load := func(config json.RawMessage) *Handler {
		mod, failure := ctx.LoadModuleByID("http.handlers.mcp_cache", config)
		if failure != nil {
			err = fmt.Errorf("provisioning: %w", failure)
			return nil
		}
		return mod.(*Handler)
	}
	if s.rules = rules; w.toolkit == nil || w.cfg.alone {
		if s.handler = load(configOf(w.ofServer(ttl), w.ofEndpoint(rules))); s.handler != nil {
			s.server = s.handler.one
		}
	}
	if w.toolkit != nil && err == nil {
		s.toolkit = load(w.toolkit.config(ttl))
	}
	if err != nil {
		cancel()
		return s, nil, nil, err
	}
	loaded, err := ctx.App("mcp_cache")
	if err != nil {
		cancel()
		return s, nil, nil, fmt.Errorf("loading the app: %w", err)
	}
	start = func() {
		if err := loaded.(caddy.App).Start(); err != nil {
			w.failNow(fmt.Errorf("starting: %w", err))
		}
	}
	return s, start, cancel, nil
}
