package mcpcache

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

var (
	modelSteps = flag.Int("model.steps", 1500, "how many random steps the model test takes")
	modelSeed  = flag.Uint64("model.seed", 1, "the seed of the model test; 0 for a new one each time")
	// modelShrink bounds how long a failing run is made shorter, in real time.
	modelShrink = flag.Duration("model.shrink", 20*time.Second, "how long the model test looks for a shorter failing run")
)

// stepsPerWorld is how many steps are taken before a new world begins, at most.
const stepsPerWorld = 160

// TestModel takes random steps: clients list, lists change, notices pass here
// or there, the upstream fails, answers are slow, time passes, configurations
// are loaded. Every answer is held against what the upstream is known to have
// been. A failing run is printed with its seed and its last steps.
//
// The steps are drawn before a run, outside of the bubble in which it happens,
// so that any of them can be left out to find a shorter run. The product draws
// its own random numbers, so a run is tried a few times before it counts as
// harmless; this is why no property testing library does the shrinking.
func TestModel(t *testing.T) { testModel(t, *modelSteps, (*modelRun).drawRules) }

// testModel takes steps in worlds of a kind.
func testModel(t *testing.T, most int, shape func(*modelRun)) {
	t.Helper()
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-model.seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	secrets, hits := modelSecrets(t), 0
	for done, n := 0, 0; done < most; n++ {
		run := modelRun{id: fmt.Sprintf("%d-%d", seed, n), secrets: secrets, cfg: newWorldConfig(r), seed: r.Uint64()}
		shape(&run)
		run.steps = newSteps(r, run.cfg, min(20+r.IntN(stepsPerWorld-20), most-done))
		done += len(run.steps)
		w := run.try(t)
		if w.violation != "" {
			t.Fatalf("-model.seed=%d: after %d steps: %s\n%s", seed, done, w.violation, run.shrink(t, w))
		}
		hits += w.hits
	}
	t.Logf("%d answers came from the cache", hits)
	if hits == 0 && most >= 500 {
		t.Error("no answer came from the cache")
	}
}

// modelRun is everything that shapes a world.
type modelRun struct {
	id, secrets string
	cfg         worldConfig
	seed        uint64
	steps       []step
}

// drawRules has some worlds have rules, and some two instances. What else is drawn does not depend on it.
func (m *modelRun) drawRules() {
	r := rand.New(rand.NewPCG(m.seed, 3))
	m.cfg.ruled = r.IntN(3) == 0
	m.cfg.long = m.cfg.ruled && r.IntN(2) == 0
	if m.cfg.fleet = r.IntN(4) == 0; m.cfg.fleet {
		m.cfg.store, m.cfg.ahead = true, pick(r, -3*time.Second, 0, time.Hour)
	}
}

// try runs the steps in a world of their own.
func (m modelRun) try(t *testing.T) (w *world) {
	defer func() {
		// The bubble ends only when all its goroutines have.
		if p := recover(); p != nil {
			w.fail("goroutines are left: %v", p)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		if w = newWorld(m.id, m.secrets, m.cfg, m.seed); m.cfg.several {
			w.addServers()
		}
		for _, at := range w.instances {
			if err := at.load(m.cfg.ttl, at.rules); err != nil {
				w.failNow(err)
				return
			}
		}
		for _, s := range m.steps {
			w.do(s)
			if w.violated() {
				break
			}
		}
		w.end()
	})
	return w
}

func (w *world) violated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.violation != ""
}

// tries is how often a run is tried before it counts as harmless.
const tries = 3

// shrink leaves out steps for as long as a promise is still violated, and
// returns the last world in which one was.
func (m modelRun) shrink(t *testing.T, w *world) *world {
	deadline := time.Now().Add(*modelShrink)
	for size := len(m.steps) / 2; size > 0; {
		shorter := false
		for from := 0; from+size <= len(m.steps) && time.Now().Before(deadline); {
			less := m
			less.steps = append(append([]step(nil), m.steps[:from]...), m.steps[from+size:]...)
			if failed := less.fails(t); failed != nil {
				m, w, shorter = less, failed, true
				continue
			}
			from += size
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return w
}

// fails returns a world in which the run violates a promise, or nil.
func (m modelRun) fails(t *testing.T) *world {
	for range tries {
		if w := m.try(t); w.violation != "" {
			return w
		}
	}
	return nil
}
