package mcpcache

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
)

// These are worlds of several servers in which one thing happens again and again.

// inToolkit runs a test in a world of several servers, of which the first one is as configured.
func inToolkit(t *testing.T, configure func(*worldConfig), test func(*world)) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 6))
	run := modelRun{id: t.Name(), secrets: modelSecrets(t), cfg: newWorldConfig(r), seed: 1}
	synctest.Test(t, func(*testing.T) {
		run.drawToolkit()
		run.cfg.alone, run.cfg.fleet, run.cfg.eras, run.cfg.gate, run.cfg.pageSize = false, false, nil, 0, 0
		configure(&run.cfg)
		w := newWorld(run.id, run.secrets, run.cfg, run.seed)
		w.addServers()
		for _, at := range w.instances {
			if err := at.load(w.cfg.ttl, at.rules); err != nil {
				t.Fatal(err)
			}
		}
		w.settle()
		test(w)
		w.end()
		if w.violation != "" {
			t.Errorf("%s\n%s", w.violation, w)
		}
	})
}

// Some servers make up their lists anew each time. Two instances, each of which finds another list than the
// other, do not have each other ask all the time.
func TestListsMadeUpAnewAreNotChased(t *testing.T) {
	const minutes = 10
	asked := func(instances int) (n int) {
		inToolkit(t, func(c *worldConfig) {
			c.fleet, c.store, c.personal, c.ttl = instances > 1, false, false, 5*time.Minute
		}, func(w *world) {
			w.mu.Lock()
			for k := range w.up.hints {
				w.up.hints[k] = hints{ttl: -1}
			}
			w.up.lists = func(a *arrival) {
				n++
				w.up.change(a.kind, modelContexts)
			}
			w.mu.Unlock()
			time.Sleep(minutes * time.Minute)
			w.settle()
		})
		return n
	}
	alone, two := asked(1), asked(2)
	t.Logf("alone, an instance asks %d times, and two ask %d times", alone, two)
	// Once a minute, clients of either era are told of a list of each kind, at each instance. The other one asks
	// again then, in both eras.
	if most := 2*alone + minutes*2*2*len(notices.Kinds)*2; alone == 0 || two > most {
		t.Errorf("two instances ask more than %d times", most)
	}
}
