package mcpcache

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

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
	// noticedLoss says that a feed has met the loss of its session since the last
	// step, feedReopened the revisions of which one has opened another.
	noticedLoss  bool
	feedReopened map[string]bool

	way *storetest.Shared // to the store of a fleet
	cut bool              // there is none
}

// serving is a handler of the product, and its rules.
type serving struct {
	handler *Handler
	rules   modelRules
}

// makeInstances makes one instance, or two of a fleet. The first has the pool of other tests.
func (w *world) makeInstances() {
	n := 1
	if w.cfg.fleet {
		n, w.shared = 2, storetest.NewTrial()
		w.shared.SetTrouble(w.refuseNow)
	}
	for i := range n {
		at := &modelInstance{w: w, n: i, pool: pool, truth: newTruth(w.known), feedReopened: make(map[string]bool)}
		if w.cfg.fleet {
			at.way = &storetest.Shared{Trial: w.shared, Ahead: w.cfg.ahead, Within: time.Duration(i) * 10 * time.Millisecond}
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
// by then.
func (w *world) longestTTL(at *modelInstance) time.Duration {
	if w.cfg.fleet {
		return max(w.cfg.ttl, longestReloadedTTL)
	}
	return slices.Max(at.ttls)
}

// confirmsAll has all instances know that there is reason to believe in empty lists.
func (w *world) confirmsAll(n *notice) {
	for _, at := range w.instances {
		at.truth.confirmsAll(n)
	}
}

// provision makes a handler as Caddy does for a new configuration. cancel is
// what Caddy does when the configuration goes.
func (at *modelInstance) provision(ttl time.Duration, rules modelRules) (h *Handler, start, cancel func(), err error) {
	base, err := caddy.ProvisionContext(&caddy.Config{
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {
			BaseLog: caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`), Level: "ERROR"},
		}}},
	})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making a context: %w", err)
	}
	ctx, cancel := caddy.NewContext(base)
	w := at.w
	w.mu.Lock()
	at.ttls, w.loading, pool = append(at.ttls, ttl), at, at.pool
	w.mu.Unlock()
	mod, err := ctx.LoadModuleByID("http.handlers.mcp_cache", w.config(ttl, rules))
	if err != nil {
		cancel()
		return nil, nil, nil, fmt.Errorf("provisioning: %w", err)
	}
	loaded, err := ctx.App("mcp_cache")
	if err != nil {
		cancel()
		return nil, nil, nil, fmt.Errorf("loading the app: %w", err)
	}
	start = func() {
		if err := loaded.(caddy.App).Start(); err != nil {
			w.failNow(fmt.Errorf("starting: %w", err))
		}
	}
	return mod.(*Handler), start, cancel, nil
}
