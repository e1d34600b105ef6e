package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// sample is what one round of one contender gave.
type sample struct {
	perCore float64 // requests per second that the server has had a core
	mallocs float64 // objects for each request; no number if nobody counts
	bytes   float64 // of a body
	// p50 and p99 are those of a single connection, loaded99 that of all.
	p50, p99, loaded99 time.Duration
}

// results are all that was measured: samples by the length of the lists and the
// contender.
type results struct {
	options *options
	samples map[int]map[string][]sample
}

// measure measures all that the options want, on one core.
func measure(ctx context.Context, o *options, core int) (*results, error) {
	r := &results{options: o, samples: make(map[int]map[string][]sample)}
	for _, n := range o.tools {
		var there []contender
		for _, c := range contenders {
			if o.wants(c.name) && (c.call == "" || n == checkedTools) {
				there = append(there, c)
			}
		}
		var err error
		if r.samples[n], err = measureStage(ctx, o, n, core, there); err != nil {
			return nil, fmt.Errorf("measuring %d tools: %w", n, err)
		}
	}
	return r, nil
}

// measureStage has contenders take turns, in a new order each round.
func measureStage(ctx context.Context, o *options, tools, core int, contenders []contender) (map[string][]sample, error) {
	s, err := newStage(tools, core)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var targets []*target
	for _, c := range contenders {
		fmt.Fprintf(os.Stderr, "%d tools: setting up %s\n", tools, c.name)
		t, err := s.set(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("setting up %s: %w", c.name, err)
		}
		targets = append(targets, t)
	}
	samples := make(map[string][]sample)
	for round := range o.rounds {
		fmt.Fprintf(os.Stderr, "%d tools: round %d of %d\n", tools, round+1, o.rounds)
		rand.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
		for _, t := range targets {
			one, err := t.sample(o.duration)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, fmt.Errorf("measuring %s: %w", t.name, err)
			}
			samples[t.name] = append(samples[t.name], one)
		}
	}
	for _, t := range targets {
		// A list that changes all the time is not always a hit.
		if err := t.verify(ctx); err != nil && t.name != "hit-changing" {
			return nil, fmt.Errorf("looking at %s once more: %w", t.name, err)
		}
	}
	return samples, nil
}

// sample warms a server up and measures it.
func (t *target) sample(duration time.Duration) (s sample, err error) {
	if _, err = drive(t.request, connections, duration/8); err != nil {
		return s, err
	}
	before, err := t.process.usage()
	if err != nil {
		return s, err
	}
	loaded, err := drive(t.request, connections, duration)
	if err != nil {
		return s, err
	}
	after, err := t.process.usage()
	if err != nil {
		return s, err
	}
	single, err := drive(t.request, 1, duration/4)
	if err != nil {
		return s, err
	}
	had, requests := after.CPU-before.CPU, float64(loaded.requests)
	if had == 0 {
		had = loaded.elapsed
	}
	s = sample{
		perCore: requests / had.Seconds(), mallocs: math.NaN(), bytes: float64(loaded.bytes) / requests,
		p50: single.p50, p99: single.p99, loaded99: loaded.p99,
	}
	if after.Mallocs > 0 {
		s.mallocs = float64(after.Mallocs-before.Mallocs) / requests
	}
	return s, nil
}

// figure is what was reached over all rounds.
type figure struct{ median, least, most float64 }

// summarize returns the figure of values, of none without numbers.
func summarize(values []float64) figure {
	if len(values) == 0 {
		return figure{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return figure{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

// of returns the figure of one value of a contender's samples.
func (r *results) of(tools int, name string, value func(sample) float64) figure {
	var values []float64
	for _, s := range r.samples[tools][name] {
		values = append(values, value(s))
	}
	return summarize(values)
}

// ratio returns the figure of the quotients of two contenders' requests per
// second, round by round: what else the machine does concerns both.
func (r *results) ratio(tools int, name, by string) figure {
	over, under := r.samples[tools][name], r.samples[tools][by]
	var values []float64
	for i := range min(len(over), len(under)) {
		values = append(values, over[i].perCore/under[i].perCore)
	}
	return summarize(values)
}

func perCore(s sample) float64 { return s.perCore }

// percentile returns the smallest of the sorted values that p percent of them
// do not exceed; 0 of none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}
