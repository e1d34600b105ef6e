package mcpcache

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// These steps are new configurations, and new processes.

// load puts a configuration in force in place of the present one.
func (w *world) load(ttl time.Duration, rules modelRules) error {
	end, err := w.begin(ttl, rules)
	if err == nil {
		end()
	}
	return err
}

// begin is load up to the moment at which both configurations are there; end ends the
// old one.
func (w *world) begin(ttl time.Duration, rules modelRules) (end func(), err error) {
	h, start, cancel, err := w.provision(ttl, rules)
	if err != nil {
		return nil, err
	}
	old := w.cancel
	w.serving, w.cancel = serving{h, rules}, cancel
	start()
	return func() {
		if old == nil {
			return
		}
		old()
		w.settle()
		w.mu.Lock()
		w.ttls = w.ttls[len(w.ttls)-1:]
		w.mu.Unlock()
	}, nil
}

// nextRules returns the rules of a configuration that comes after the present one.
func (w *world) nextRules(r *rand.Rand) modelRules {
	if w.cfg.ruled && r.IntN(2) == 0 {
		return newRules(r)
	}
	return w.rules
}

// stepReload provisions the next configuration beside the present one, which
// goes afterwards, or stays because the next one is rejected.
func (w *world) stepReload(r *rand.Rand) {
	ttl := pick(r, w.cfg.ttl, w.cfg.ttl, time.Minute, 2*time.Minute)
	rejected := r.IntN(3) == 0
	rules := w.nextRules(r)
	if rejected {
		_, _, cancel, err := w.provision(ttl, rules)
		if err != nil {
			w.failNow(fmt.Errorf("provisioning a configuration that is rejected: %w", err))
			return
		}
		w.noteNow("a configuration is rejected")
		w.stepList(r)
		cancel()
		return
	}
	w.reload(r, ttl, rules)
}

// stepRules is a reload with other rules.
func (w *world) stepRules(r *rand.Rand) { w.reload(r, w.cfg.ttl, newRules(r)) }

// reload puts a configuration in force. While both are there each has requests to answer.
func (w *world) reload(r *rand.Rand, ttl time.Duration, rules modelRules) {
	w.noteNow("reload with ttl %s and rules %v", ttl, rules)
	before := w.serving
	end, err := w.begin(ttl, rules)
	if err != nil {
		w.failNow(err)
		return
	}
	if w.cfg.ruled {
		w.askBoth(r, before, w.serving)
	}
	end()
}

// askBoth has clients ask for a list of two configurations that share what is cached.
func (w *world) askBoth(r *rand.Rand, before, after serving) {
	for range 3 {
		c, k := w.anyone(r), pick(r, modelKinds[:4]...)
		for _, one := range [...]serving{before, after} {
			w.serving = one
			w.send(c, w.question(r, c, k))
			w.settle()
		}
	}
}

// stepRestart is the process ending and starting again; half of the times while
// the upstream gives no lists, though it has announced a change.
func (w *world) stepRestart(r *rand.Rand) {
	troubled := r.IntN(2) == 0
	if troubled {
		w.mu.Lock()
		w.up.faults = append(w.up.faults, &fault{
			mode: pick(r, faultStatus, faultRPC), feed: true, clients: true, lists: true, repaired: make(chan struct{}),
		})
		w.note("upstream: gives no lists")
		w.mu.Unlock()
		w.change(r, revision.Tools)
		w.settle()
	}
	w.mu.Lock()
	for x := range w.pending {
		x.cancelled = true
		x.cancel()
	}
	w.mu.Unlock()
	w.calls.Wait()
	w.cancel()
	w.cancel = nil
	w.mu.Lock()
	w.truth.restarts(len(w.unsaved) == 0)
	w.note("restart")
	w.mu.Unlock()
	if err := w.load(w.cfg.ttl, w.nextRules(r)); err != nil {
		w.failNow(err)
	}
	if troubled {
		w.settle()
		for _, c := range w.clients {
			w.send(c, w.question(r, c, revision.Tools))
		}
	}
}
