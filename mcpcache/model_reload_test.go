package mcpcache

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// These steps are new configurations, and new processes.

// load puts a configuration in force in place of the present one.
func (at *modelInstance) load(ttl time.Duration, rules modelRules) error {
	end, err := at.begin(ttl, rules)
	if err == nil {
		end()
	}
	return err
}

// begin is load up to the moment at which both configurations are there; end ends the
// old one.
func (at *modelInstance) begin(ttl time.Duration, rules modelRules) (end func(), err error) {
	next, start, cancel, err := at.provision(ttl, rules)
	if err != nil {
		return nil, err
	}
	old := at.cancel
	at.serving, at.cancel = next, cancel
	if at.toolkit != nil {
		at.serveServers()
	}
	start()
	return func() {
		if old == nil {
			return
		}
		old()
		at.w.settle()
		at.w.mu.Lock()
		for _, s := range at.w.servers() {
			one := s.instances[at.n]
			one.ttls = one.ttls[len(one.ttls)-1:]
		}
		at.w.mu.Unlock()
	}, nil
}

// nextRules returns the rules of a configuration that comes after the present one.
func (at *modelInstance) nextRules(r *rand.Rand) modelRules {
	if at.w.cfg.ruled && r.IntN(2) == 0 {
		return newRules(r)
	}
	return at.rules
}

// longestReloadedTTL is the longest ttl of a configuration that is loaded later.
const longestReloadedTTL = 2 * time.Minute

// stepReload provisions the next configuration beside the present one, which
// goes afterwards, or stays because the next one is rejected. The instance's way to others is another
// one then: it takes all lists for outdated if somebody has announced something meanwhile.
func (w *world) stepReload(r *rand.Rand) {
	defer func() {
		w.settle()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, s := range w.servers() {
			s.stir()
		}
	}()
	ttl := pick(r, w.cfg.ttl, w.cfg.ttl, time.Minute, longestReloadedTTL)
	rejected := r.IntN(3) == 0
	at := w.anyInstance(r)
	rules := at.nextRules(r)
	if rejected {
		_, _, cancel, err := at.provision(ttl, rules)
		if err != nil {
			w.failNow(fmt.Errorf("provisioning a configuration that is rejected: %w", err))
			return
		}
		w.noteNow("a configuration is rejected")
		w.stepList(r)
		cancel()
		return
	}
	w.reload(r, at, ttl, rules)
}

// stepRules is a reload with other rules.
func (w *world) stepRules(r *rand.Rand) { w.reload(r, w.anyInstance(r), w.cfg.ttl, newRules(r)) }

// reload puts a configuration in force. While both are there each has requests to answer.
func (w *world) reload(r *rand.Rand, at *modelInstance, ttl time.Duration, rules modelRules) {
	w.noteNow("reload of %d with ttl %s and rules %v", at.n, ttl, rules)
	before := at.serving
	end, err := at.begin(ttl, rules)
	if err != nil {
		w.failNow(err)
		return
	}
	if w.cfg.ruled {
		w.askBoth(r, at, before, at.serving)
	}
	end()
}

// askBoth has clients ask for a list of two configurations that share what is cached.
func (w *world) askBoth(r *rand.Rand, at *modelInstance, before, after serving) {
	for range 3 {
		c, k := w.anyoneWho(r, func(c *client) bool { return c.at == at }), pick(r, modelKinds[:4]...)
		for _, one := range [...]serving{before, after} {
			at.serving = one
			w.send(c, w.question(r, c, k))
			w.settle()
		}
	}
}

// stepRestart is the process ending and starting again; half of the times while
// the upstream gives no lists, though it has announced a change.
func (w *world) stepRestart(r *rand.Rand) {
	troubled := r.IntN(2) == 0
	if s := pick(r, w.servers()...); troubled {
		s.failLists(r)
		s.change(r, revision.Tools)
		w.settle()
	}
	at := w.anyInstance(r)
	at.stop()
	w.mu.Lock()
	for _, s := range w.servers() {
		s.instances[at.n].truth.restarts(!w.cfg.fleet && len(w.unsaved) == 0)
		s.stir()
	}
	w.note("restart of %d", at.n)
	w.mu.Unlock()
	if err := at.load(w.cfg.ttl, at.nextRules(r)); err != nil {
		w.failNow(err)
	}
	if troubled {
		w.settle()
		w.askAll(r, revision.Tools)
	}
}

// failLists has the upstream give no lists.
func (w *world) failLists(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up.faults = append(w.up.faults, &fault{
		mode: pick(r, faultStatus, faultRPC), feed: true, clients: true, lists: true, repaired: make(chan struct{}),
	})
	w.note("upstream: gives no lists")
}

// askAll has all clients ask for a list.
func (w *world) askAll(r *rand.Rand, k revision.Kind) {
	if w.toolkit == nil || w.cfg.alone {
		for _, c := range w.clients {
			w.send(c, w.question(r, c, k))
		}
	}
	if w.toolkit != nil {
		for _, c := range w.toolkit.clients {
			w.enter(c)
			w.visit(c, listing(k))
		}
	}
}

// stop ends the process of an instance, and the requests that it has.
func (at *modelInstance) stop() {
	at.w.mu.Lock()
	for x := range at.w.pending {
		if x.at == at {
			x.cancelled = true
			x.cancel()
		}
	}
	at.w.mu.Unlock()
	at.calls.Wait()
	at.cancel()
	at.cancel = nil
	time.Sleep(time.Nanosecond) // until another begins: what it finds is older than that
}
