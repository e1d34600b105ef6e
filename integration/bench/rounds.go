package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"
)

const (
	// connections is how many a load has; as many requests are under way.
	connections = 32
	// busy is which part of its time a core that is the limit has work.
	busy = 0.95
	// attempts is how often a round is tried that something else disturbs.
	attempts = 2
)

// sample is what one round of one contender gave.
type sample struct {
	LoadResult

	// cpu is the time the server has had a core; 0 if the system does not tell.
	cpu time.Duration
	// disturbed says that something else had the core.
	disturbed bool
	// mallocs and upstream are counts; negative if nobody counts.
	mallocs, upstream int64
}

// series is all that was measured of a contender.
type series struct {
	contender

	// missing is why nothing was measured.
	missing string
	samples []sample
	latency []LoadResult
}

// bench measures on one stage.
type bench struct {
	*stage

	load   *process
	random *rand.Rand
}

// run measures contenders in turns.
func (b *bench) run(ctx context.Context, contenders []contender) ([]*series, error) {
	var all, there []*series
	targets := make(map[*series]*target)
	for _, c := range contenders {
		if !b.options.wants(c.name) {
			continue
		}
		s := &series{contender: c}
		all = append(all, s)
		b.say("setting up " + c.name)
		t, err := c.setup(ctx, b.stage)
		if reason, missing := isMissing(err); missing {
			s.missing = reason
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("setting up %s: %w", c.name, err)
		}
		targets[s] = t
		there = append(there, s)
	}
	for round := range b.options.rounds {
		b.random.Shuffle(len(there), func(i, j int) { there[i], there[j] = there[j], there[i] })
		b.say(fmt.Sprintf("round %d of %d", round+1, b.options.rounds))
		for _, s := range there {
			if err := b.round(ctx, s, targets[s]); err != nil {
				return nil, fmt.Errorf("measuring %s: %w", s.name, err)
			}
		}
	}
	return all, nil
}

// round measures one contender once.
func (b *bench) round(ctx context.Context, s *series, t *target) error {
	var result sample
	for range attempts {
		var err error
		if result, err = b.sample(ctx, t); err != nil {
			return err
		}
		if !result.disturbed {
			break
		}
	}
	s.samples = append(s.samples, result)
	single, err := b.drive(ctx, t, 1, b.options.duration/4)
	s.latency = append(s.latency, single)
	return err
}

// say tells the person who waits.
func (b *bench) say(what string) { fmt.Fprintf(os.Stderr, "%d tools: %s\n", b.tools, what) }

// drive drives a load.
func (b *bench) drive(ctx context.Context, t *target, connections int, duration time.Duration) (LoadResult, error) {
	var result LoadResult
	job := LoadJob{Addr: t.addr, Request: t.request, Connections: connections, Duration: duration}
	return result, b.load.call(ctx, duration+2*requestTimeout, "Run", job, &result)
}

// sample warms a server up and measures it.
func (b *bench) sample(ctx context.Context, t *target) (sample, error) {
	var s sample
	if _, err := b.drive(ctx, t, connections, b.options.duration/8); err != nil {
		return s, err
	}
	before, err := b.read(ctx, t)
	if err != nil {
		return s, err
	}
	if s.LoadResult, err = b.drive(ctx, t, connections, b.options.duration); err != nil {
		return s, err
	}
	after, err := b.read(ctx, t)
	if err != nil {
		return s, err
	}
	s.cpu = after.cpu - before.cpu
	s.mallocs, s.upstream = after.mallocs-before.mallocs, after.upstream-before.upstream
	if t.server.client == nil {
		s.mallocs = -1
	}
	if t.upstream == nil {
		s.upstream = -1
	}
	enough := time.Duration(busy * float64(s.Elapsed))
	s.disturbed = s.cpu > 0 && s.cpu < enough && after.load-before.load < enough
	return s, nil
}

// reading is the state of the processes at one moment.
type reading struct {
	cpu, load         time.Duration
	mallocs, upstream int64
}

func (b *bench) read(ctx context.Context, t *target) (reading, error) {
	var r reading
	if t.upstream != nil {
		stats, err := t.upstream.stats(ctx)
		if err != nil {
			return r, err
		}
		r.upstream = int64(stats.Requests)
	}
	if t.server.client != nil {
		stats, err := t.server.stats(ctx)
		if err != nil {
			return r, err
		}
		r.mallocs = int64(stats.Mallocs)
	}
	if !b.options.linux {
		return r, nil
	}
	var err error
	if r.cpu, err = cpuTime(t.server.pid()); err != nil {
		return r, err
	}
	if r.load, err = cpuTime(b.load.pid()); err != nil {
		return r, err
	}
	if t.upstream != nil && b.cores.upstream == b.cores.load {
		shared, err := cpuTime(t.upstream.pid())
		r.load += shared
		return r, err
	}
	return r, nil
}

// values returns one value for each round, no number for rounds that do not
// count. If most do not, all count: a figure that is doubtful is better than
// none, and noisy says so.
func (s *series) values(of func(sample) float64) []float64 {
	values := make([]float64, len(s.samples))
	for i, sample := range s.samples {
		values[i] = math.NaN()
		if !sample.disturbed || s.noisy() {
			values[i] = of(sample)
		}
	}
	return values
}

// noisy reports whether something else had the core in most rounds.
func (s *series) noisy() bool {
	disturbed := 0
	for _, sample := range s.samples {
		if sample.disturbed {
			disturbed++
		}
	}
	return 2*disturbed > len(s.samples)
}

// perCore returns requests per second that the server has had a core, or per
// second that went by if that is not known.
func (s sample) perCore() float64 {
	if s.cpu == 0 {
		return divide(float64(s.Requests), s.Elapsed.Seconds())
	}
	return divide(float64(s.Requests), s.cpu.Seconds())
}

// perRequest divides a count by the requests, no number if nobody has counted.
func (s sample) perRequest(count int64) float64 {
	if count < 0 {
		return math.NaN()
	}
	return divide(float64(count), float64(s.Requests))
}
